#include "mezzo/kernels/cuda/nccl_engine.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

#include <cuda_runtime_api.h>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/context.h"
#include "mezzo/kernels/cuda/nccl_library.h"
#include "mezzo/kernels/cuda/recorder.h"

namespace mezzo::kernels::cuda {
namespace {

// NCCL's own text says what failed last; of errors in other processes it knows nothing.
void check_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) [[likely]]
    return;
  const Nccl& nccl = nccl_library();
  const char* last = nccl.ncclGetLastError(nullptr);
  const std::string_view details = last == nullptr ? "" : last;
  fail<DeviceError>("distributed", call, " failed: ", nccl.ncclGetErrorString(result),
                    details.empty() ? "" : ", ", details,
                    ". NCCL_DEBUG=WARN says more; MEZZO_NCCL=0 does without NCCL");
}

// Calls between ncclGroupStart() and ncclGroupEnd(), which must follow whatever fails in between.
class NcclGroup {
 public:
  NcclGroup() { check_nccl(nccl_library().ncclGroupStart(), "ncclGroupStart"); }
  ~NcclGroup() {
    if (!has_ended_) static_cast<void>(nccl_library().ncclGroupEnd());
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  void end() {
    has_ended_ = true;
    check_nccl(nccl_library().ncclGroupEnd(), "ncclGroupEnd");
  }

 private:
  bool has_ended_ = false;
};

class NcclEngine final : public DeviceEngine {
 public:
  NcclEngine(const ncclUniqueId& key, int rank, int size, Device device)
      : device_(device), size_(size) {
    const OnDevice on(device_);
    check_nccl(nccl_.ncclCommInitRank(&comm_, size, key, rank), "ncclCommInitRank");
  }

  // A process that fails must not wait for the others, who may be waiting for what it has not sent;
  // nor one that has an engine where another has none.
  ~NcclEngine() override {
    const bool aborts =
        !has_exchanged_ || std::uncaught_exceptions() > 0 || async_error() != ncclSuccess;
    static_cast<void>(aborts ? nccl_.ncclCommAbort(comm_) : nccl_.ncclCommDestroy(comm_));
  }

  Device device() const override { return device_; }

  void broadcast(void* data, std::size_t bytes) override {
    const OnDevice on(device_);
    check_nccl(nccl_.ncclBroadcast(data, data, bytes, ncclInt8, 0, comm_, stream()),
               "ncclBroadcast");
  }

  void all_to_all(const void* send, void* receive, std::size_t part_bytes) override {
    const OnDevice on(device_);
    cudaStream_t queue = stream();
    NcclGroup group;
    for (int r = 0; r < size_; ++r) {
      const std::size_t at = static_cast<std::size_t>(r) * part_bytes;
      check_nccl(nccl_.ncclSend(static_cast<const char*>(send) + at, part_bytes, ncclInt8, r, comm_,
                                queue),
                 "ncclSend");
      check_nccl(
          nccl_.ncclRecv(static_cast<char*>(receive) + at, part_bytes, ncclInt8, r, comm_, queue),
          "ncclRecv");
    }
    group.end();
  }

  void all_gather(const void* send, void* receive, std::size_t part_bytes) override {
    const OnDevice on(device_);
    check_nccl(nccl_.ncclAllGather(send, receive, part_bytes, ncclInt8, comm_, stream()),
               "ncclAllGather");
  }

 private:
  // What NCCL has found since the last call, for example that a connection is lost.
  ncclResult_t async_error() const {
    ncclResult_t found = ncclSuccess;
    const ncclResult_t asked = nccl_.ncclCommGetAsyncError(comm_, &found);
    return asked != ncclSuccess ? asked : found;
  }

  // The calling thread's stream, for the next exchange.
  cudaStream_t stream() {
    refuse_while_recording("it exchanges with other processes");
    check_nccl(async_error(), "an exchange by NCCL");
    has_exchanged_ = true;
    return context_of(device_).stream();
  }

  const Nccl& nccl_ = nccl_library();
  Device device_;
  int size_;
  ncclComm_t comm_ = nullptr;
  bool has_exchanged_ = false;
};

bool is_nccl_off() {
  const char* text = std::getenv("MEZZO_NCCL");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr && std::string_view(text) == "0";
}

class NcclEngineMaker final : public DeviceEngineMaker {
 public:
  // A card has one on every machine, in every container.
  std::string identity_of(Device device) const override {
    cudaDeviceProp properties{};
    MEZZO_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index));
    return std::string(properties.uuid.bytes, sizeof(properties.uuid.bytes));
  }

  void check() const override {
    if (is_nccl_off()) fail<UnsupportedError>("distributed", "MEZZO_NCCL=0 says so");
    static_cast<void>(nccl_library());
  }

  std::vector<std::byte> make_key() const override {
    ncclUniqueId id{};
    check_nccl(nccl_library().ncclGetUniqueId(&id), "ncclGetUniqueId");
    std::vector<std::byte> key(sizeof(id));
    std::memcpy(key.data(), &id, sizeof(id));
    return key;
  }

  std::unique_ptr<DeviceEngine> make(std::span<const std::byte> key, int rank, int size,
                                     Device device) const override {
    ncclUniqueId id{};
    check_arg(key.size() == sizeof(id), "distributed", "a key of NCCL has ", sizeof(id),
              " bytes, not ", key.size(), ". Use that of make_key()");
    std::memcpy(&id, key.data(), sizeof(id));
    return std::make_unique<NcclEngine>(id, rank, size, device);
  }
};

}  // namespace

const DeviceEngineMaker* engine_maker() {
  static const NcclEngineMaker maker;
  return &maker;
}

}  // namespace mezzo::kernels::cuda

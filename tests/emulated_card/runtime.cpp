// The calls of the CUDA runtime that do not concern order: devices, memory, copies, errors,
// launches.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/emulated_card/block.h"
#include "tests/emulated_card/failure.h"
#include "tests/emulated_card/launch.h"
#include "tests/emulated_card/memory.h"
#include "tests/emulated_card/queue.h"

namespace mezzo::emulated_card {
namespace {

// A small number, so that a grid is soon smaller than its work, and threads have to continue with
// further elements. MEZZO_EMULATED_CARD_MULTIPROCESSORS overrides it.
int multiprocessors() {
  static const int count = [] {
    const char* text =
        std::getenv("MEZZO_EMULATED_CARD_MULTIPROCESSORS");  // NOLINT(concurrency-mt-unsafe)
    return text == nullptr ? 2 : std::atoi(text);
  }();
  return count;
}

// MEZZO_EMULATED_CARD_DRIVER is the CUDA version that the driver supports, 0 for no driver.
int driver() {
  static const int version = [] {
    const char* text = std::getenv("MEZZO_EMULATED_CARD_DRIVER");  // NOLINT(concurrency-mt-unsafe)
    return text == nullptr ? CUDART_VERSION : std::atoi(text);
  }();
  return version;
}

thread_local cudaError_t last_error = cudaSuccess;

thread_local int card_in_use = 0;

bool is_card(int device) { return device >= 0 && device < card_count(); }

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Whether a device can access memory while the host continues.
bool is_reachable(const void* data) { return type_of(data) != cudaMemoryTypeUnregistered; }

}  // namespace

int capability() {
  static const int value = [] {
    const char* text =
        std::getenv("MEZZO_EMULATED_CARD_CAPABILITY");  // NOLINT(concurrency-mt-unsafe)
    return text == nullptr ? 90 : std::atoi(text);
  }();
  return value;
}

int card_count() {
  static const int count = [] {
    const char* text = std::getenv("MEZZO_EMULATED_CARD_COUNT");  // NOLINT(concurrency-mt-unsafe)
    return text == nullptr ? 1 : std::atoi(text);
  }();
  return count;
}

int current_card() { return card_in_use; }

cudaError_t check_grid(dim3 blocks, dim3 threads) {
  const std::uint64_t in_block = std::uint64_t{threads.x} * threads.y * threads.z;
  const bool fits = in_block >= 1 && in_block <= 1024 && threads.z <= 64 && blocks.x >= 1 &&
                    blocks.x <= 0x7FFFFFFFU && blocks.y >= 1 && blocks.y <= 65535 &&
                    blocks.z >= 1 && blocks.z <= 65535;
  return fits ? cudaSuccess : cudaErrorInvalidConfiguration;
}

void set_last_error(cudaError_t error) { note(error); }

cudaError_t queue_kernel(dim3 blocks, dim3 threads, cudaStream_t stream,
                         std::function<void()> body) {
  const std::lock_guard lock(machine());
  if (const cudaError_t error = check_grid(blocks, threads); error != cudaSuccess) return error;
  if (stream != nullptr && card_of(stream) != card_in_use) return cudaErrorInvalidResourceHandle;
  return queue(stream,
               [blocks, threads, body = std::move(body)] { run_grid(blocks, threads, body); });
}

void check_reachable(const void* data) {
  const std::lock_guard lock(machine());
  if (card_at(data) != card_in_use) {
    give_up("a kernel on card " + std::to_string(card_in_use) + " is given memory of card " +
            std::to_string(card_at(data)));
  }
  // Empty tensors lie at null, at an offset from it, or one past the end of a block.
  constexpr std::uintptr_t kPage = 4096;
  if (reinterpret_cast<std::uintptr_t>(data) < kPage || is_reachable(data) ||
      is_reachable(static_cast<const char*>(data) - 1)) {
    return;
  }
  char text[80];
  std::snprintf(text, sizeof(text), "a kernel is given %p, ordinary memory of the host", data);
  give_up(text);
}

}  // namespace mezzo::emulated_card

using namespace mezzo::emulated_card;  // NOLINT(google-build-using-namespace): the card's own calls

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    default: return "an error";
  }
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = driver() >= CUDART_VERSION / 1000 * 1000 ? card_count() : 0;
  return *count > 0 ? cudaSuccess : note(cudaErrorInsufficientDriver);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver();
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = card_in_use;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!is_card(device)) return note(cudaErrorInvalidDevice);
  card_in_use = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_card(device)) return note(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = multiprocessors(); break;
    case cudaDevAttrComputeCapabilityMajor: *value = capability() / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = capability() % 10; break;
    default: return note(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_card(device)) return note(cudaErrorInvalidDevice);
  *properties = {};
  constexpr char kName[] = "emulated card";
  std::copy(std::begin(kName), std::end(kName), properties->name);
  properties->major = capability() / 10;
  properties->minor = capability() % 10;
  properties->multiProcessorCount = multiprocessors();
  properties->totalGlobalMem = kRoom;
  properties->uuid.bytes[0] = static_cast<char>(1 + device);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(machine());
  *free = free_bytes();
  *total = kRoom;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** block, std::size_t bytes) {
  const std::lock_guard lock(machine());
  if (const cudaError_t error = check_may_wait(); error != cudaSuccess) return note(error);
  *block = take_memory(bytes);
  return *block == nullptr ? note(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFree(void* block) {
  const std::lock_guard lock(machine());
  if (const cudaError_t error = check_may_wait(); error != cudaSuccess) return note(error);
  run_all_queued();
  return block == nullptr || give_back_memory(block) ? cudaSuccess : note(cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void** block, std::size_t bytes, unsigned /*flags*/) {
  const std::lock_guard lock(machine());
  if (const cudaError_t error = check_may_wait(); error != cudaSuccess) return note(error);
  *block = take_pinned(bytes);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** block, std::size_t bytes) {
  return cudaHostAlloc(block, bytes, 0);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned /*flags*/) {
  const std::lock_guard lock(machine());
  if (type_of(host) != cudaMemoryTypeHost) return note(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  const std::lock_guard lock(machine());
  *attributes = {};
  attributes->type = type_of(data);
  attributes->device =
      attributes->type == cudaMemoryTypeUnregistered ? cudaInvalidDeviceId : card_at(data);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(machine());
  if (bytes != 0 && !is_reachable(to)) return note(cudaErrorInvalidValue);
  return note(queue(stream, [=] { std::memset(to, value, bytes); }));
}

// Ordinary host memory makes the copy synchronous. It is read before the call returns, or written
// when the call returns, after all previously queued work.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const std::lock_guard lock(machine());
  if (bytes == 0) return cudaSuccess;
  const bool to_card = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_card = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to_card != (type_of(to) == cudaMemoryTypeDevice) ||
      from_card != (type_of(from) == cudaMemoryTypeDevice)) {
    return note(cudaErrorInvalidValue);
  }
  if (is_reachable(from) && is_reachable(to)) {
    return note(queue(stream, [=] { std::memcpy(to, from, bytes); }));
  }
  if (const cudaError_t error = check_may_wait(); error != cudaSuccess) return note(error);
  if (!is_reachable(from)) {
    const auto* bytes_now = static_cast<const char*>(from);
    return note(queue(stream, [to, copy = std::vector<char>(bytes_now, bytes_now + bytes)] {
      std::memcpy(to, copy.data(), copy.size());
    }));
  }
  const cudaError_t error = queue(stream, [=] { std::memcpy(to, from, bytes); });
  if (error == cudaSuccess) run_queued(stream);
  return note(error);
}

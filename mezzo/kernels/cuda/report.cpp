#include "mezzo/kernels/cuda/report.h"

#include <array>
#include <atomic>
#include <mutex>

#include <cuda_runtime_api.h>

#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/context.h"

namespace mezzo::kernels::cuda {
namespace {

struct Slot {
  std::mutex mutex;
  Report* host = nullptr;
  Report* device = nullptr;
};

Slot& slot_of(Device device) {
  // Never destroyed: kernels may still write to it during static destruction.
  static auto* slots = new std::array<Slot, kMostDevices>;
  return (*slots)[place_of(device)];
}

}  // namespace

Report* report_of(Device device) {
  Slot& slot = slot_of(device);
  const std::lock_guard lock(slot.mutex);
  if (slot.host == nullptr) {
    const OnDevice on(device);
    void* host = nullptr;
    void* mapped = nullptr;
    MEZZO_CUDA_CHECK(cudaHostAlloc(&host, sizeof(Report), cudaHostAllocMapped));
    MEZZO_CUDA_CHECK(cudaHostGetDevicePointer(&mapped, host, 0));
    slot.host = new (host) Report;
    slot.device = static_cast<Report*>(mapped);
  }
  return slot.device;
}

void throw_reported(Device device) {
  Slot& slot = slot_of(device);
  Report found;
  {
    const std::lock_guard lock(slot.mutex);
    if (slot.host == nullptr || *static_cast<volatile int*>(&slot.host->fault) == 0) return;
    found = *slot.host;
    slot.host->fault = static_cast<int>(Fault::kNone);
    // Last: another thread's kernel may claim the report at once, and what it writes must stay.
    std::atomic_ref(slot.host->claimed).store(0, std::memory_order_release);
  }
  if (static_cast<Fault>(found.fault) == Fault::kLabel) {
    fail("labels", "label ", found.at, " is ", found.value, ", out of range for ", found.bound,
         " classes, found on ", device,
         " after the call. Labels count from 0; those that do not count are ignore_index");
  }
  if (static_cast<Fault>(found.fault) == Fault::kLength) {
    fail("recurrent", "length ", found.value, " of sequence ", found.at, " is outside [0, ",
         found.bound - 1, "], found on ", device, " after the call. Give the number of its steps");
  }
  if (static_cast<Fault>(found.fault) == Fault::kCount) {
    fail("batch_norm", "statistics are those of all processes, and process 0 has ", found.bound,
         " values per channel, process ", found.at, " ", found.value, ", found on ", device,
         " after the call. Give each batches of the same size: drop the last incomplete ones");
  }
  fail("indexing", "index ", found.at, " is ", found.value, ", out of range for ", found.bound,
       " rows, found on ", device, " after the call. Indices count from 0");
}

}  // namespace mezzo::kernels::cuda

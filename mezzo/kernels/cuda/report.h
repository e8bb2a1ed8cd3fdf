// Reports faulty input values from kernels to the host without making it wait.
//
// On the CPU, a label out of range is an exception at once. A kernel cannot throw, and reading its
// findings after every call would make the host wait for the GPU in every step. Instead, it writes
// the first finding to memory that both see. The next call that waits for the GPU throws it.
#pragma once

#include <cstdint>

#include "mezzo/core/device.h"

namespace mezzo::kernels::cuda {

enum class Fault : int { kNone, kLabel, kIndex, kLength, kCount };

struct Report {
  int claimed = 0;  // set by the first kernel that finds something
  int fault = 0;    // a Fault; written last
  std::int64_t at = 0;
  std::int64_t value = 0;
  std::int64_t bound = 0;
};

// The report for kernels on the device, at its device address.
Report* report_of(Device device);

// If a finished kernel has reported something, clears that and throws ArgumentError.
void throw_reported(Device device);

#ifdef __CUDACC__
// Reports to the host, unless something else is reported already.
__device__ inline void report_fault(Report* report, Fault fault, std::int64_t at,
                                    std::int64_t value, std::int64_t bound) {
  if (atomicCAS_system(&report->claimed, 0, 1) != 0) return;
  report->at = at;
  report->value = value;
  report->bound = bound;
  __threadfence_system();
  *static_cast<volatile int*>(&report->fault) = static_cast<int>(fault);
}

// True if 0 <= value < bound; otherwise reports element `at` to the host.
__device__ inline bool check_range(Report* report, Fault fault, std::int64_t at, std::int64_t value,
                                   std::int64_t bound) {
  if (value >= 0 && value < bound) return true;
  report_fault(report, fault, at, value, bound);
  return false;
}
#endif

}  // namespace mezzo::kernels::cuda

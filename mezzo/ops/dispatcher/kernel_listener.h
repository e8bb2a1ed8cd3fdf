// A listener to kernels: which ones ran, on how much data, and for how long.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/scoped.h"

namespace mezzo {

// The work of one kernel call.
struct KernelWork {
  const char* op = "";
  const char* kernel = "";
  DType dtype = DType::kF32;  // of the operands
  double flops = 0;           // multiplications and additions of products; 0 for other operations
  double bytes = 0;           // of operands and results, each once: the minimum memory traffic
};

class KernelListener {
 public:
  // `ms` (wall time; on devices the device's own time) and work.flops exclude the kernels that this
  // one called: a kernel that lets another multiply has no arithmetic of its own. work.bytes are
  // what the call itself reads and writes.
  virtual void on_run(const KernelWork& work, double ms) = 0;

 protected:
  ~KernelListener() = default;
};

// While it exists, the listener is notified of every kernel that this thread runs, after it ran.
// Without a listener nothing is timed.
class ListenToKernels {
 public:
  explicit ListenToKernels(KernelListener& listener);

 private:
  Scoped<KernelListener*> scope_;
};

namespace detail {

extern thread_local KernelListener* kernel_listener;

class KernelStopwatch {
 public:
  // Work on a device is timed there: a call that only queues it returns in microseconds.
  explicit KernelStopwatch(Device device);
  void stop(const KernelWork& work) const;

 private:
  // The costs of kernels.
  struct Costs {
    double ms = 0;
    double flops = 0;
  };

  // Costs of the kernels that the current kernel has called.
  static thread_local Costs inside;

  double elapsed_ms() const;

  Costs outer_inside_;                  // the same for the kernel that called this one
  std::unique_ptr<DeviceTimer> timer_;  // null on the CPU
  std::chrono::steady_clock::time_point start_;
};

}  // namespace detail

// Runs body(), a kernel, on a device, and notifies the listener if there is one. describe() returns
// the KernelWork and is called only then.
template <class Describe, class Body>
void run_listened_on(Device device, Describe&& describe, Body&& body) {
  if (detail::kernel_listener == nullptr) [[likely]] {
    std::forward<Body>(body)();
    return;
  }
  const detail::KernelStopwatch watch(device);
  std::forward<Body>(body)();
  watch.stop(std::forward<Describe>(describe)());
}

// Like run_listened_on(), on the CPU.
template <class Describe, class Body>
void run_listened(Describe&& describe, Body&& body) {
  run_listened_on(kCpuDevice, std::forward<Describe>(describe), std::forward<Body>(body));
}

}  // namespace mezzo

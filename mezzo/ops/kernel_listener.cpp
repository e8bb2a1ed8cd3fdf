#include "mezzo/ops/kernel_listener.h"

namespace mezzo {
namespace {

// Milliseconds of the kernels that the kernel which runs now has called.
thread_local double inside_ms = 0;

}  // namespace

namespace detail {

thread_local KernelListener* kernel_listener = nullptr;

KernelStopwatch::KernelStopwatch()
    : outer_inside_ms_(std::exchange(inside_ms, 0)), start_(std::chrono::steady_clock::now()) {}

void KernelStopwatch::stop(const KernelWork& work) const {
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start_;
  const double own_ms = elapsed.count() - inside_ms;
  inside_ms = outer_inside_ms_ + elapsed.count();
  kernel_listener->on_run(work, own_ms);
}

}  // namespace detail

ListenToKernels::ListenToKernels(KernelListener& listener)
    : previous_(std::exchange(detail::kernel_listener, &listener)) {
  inside_ms = 0;
}

ListenToKernels::~ListenToKernels() { detail::kernel_listener = previous_; }

}  // namespace mezzo

#include "mezzo/ops/dispatcher/kernel_listener.h"

#include <algorithm>

namespace mezzo {
namespace detail {

thread_local KernelListener* kernel_listener = nullptr;
thread_local KernelStopwatch::Costs KernelStopwatch::inside;

KernelStopwatch::KernelStopwatch(Device device) : outer_inside_(std::exchange(inside, {})) {
  if (!device.is_cpu()) timer_ = backend_of(device).start_timer(device);
  start_ = std::chrono::steady_clock::now();
}

double KernelStopwatch::elapsed_ms() const {
  if (timer_ != nullptr) return timer_->stop();
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start_;
  return elapsed.count();
}

void KernelStopwatch::stop(const KernelWork& work) const {
  const double elapsed = elapsed_ms();
  // A product computed by another kernel may take more arithmetic than the call asks for.
  KernelWork own = work;
  own.flops = std::max(0.0, work.flops - inside.flops);
  const double own_ms = elapsed - inside.ms;
  inside = {outer_inside_.ms + elapsed, outer_inside_.flops + std::max(work.flops, inside.flops)};
  kernel_listener->on_run(own, own_ms);
}

}  // namespace detail

ListenToKernels::ListenToKernels(KernelListener& listener)
    : scope_(detail::kernel_listener, &listener) {}

}  // namespace mezzo

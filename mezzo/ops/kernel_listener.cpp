#include "mezzo/ops/kernel_listener.h"

#include <algorithm>

namespace mezzo {
namespace detail {

thread_local KernelListener* kernel_listener = nullptr;
thread_local KernelStopwatch::Costs KernelStopwatch::inside;

KernelStopwatch::KernelStopwatch()
    : outer_inside_(std::exchange(inside, {})), start_(std::chrono::steady_clock::now()) {}

void KernelStopwatch::stop(const KernelWork& work) const {
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start_;
  // A product that another kernel computes may take more arithmetic than the call asks for.
  KernelWork own = work;
  own.flops = std::max(0.0, work.flops - inside.flops);
  const double own_ms = elapsed.count() - inside.ms;
  inside = {outer_inside_.ms + elapsed.count(),
            outer_inside_.flops + std::max(work.flops, inside.flops)};
  kernel_listener->on_run(own, own_ms);
}

}  // namespace detail

ListenToKernels::ListenToKernels(KernelListener& listener)
    : previous_(std::exchange(detail::kernel_listener, &listener)) {}

ListenToKernels::~ListenToKernels() { detail::kernel_listener = previous_; }

}  // namespace mezzo

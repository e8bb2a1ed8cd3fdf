#include "mezzo/tune/cast_times.h"

#include <algorithm>
#include <limits>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"

namespace mezzo::tune {
namespace {

class SumTimes final : public KernelListener {
 public:
  void on_run(const KernelWork& /*work*/, double ms) override { ms_ += ms; }
  double ms() const { return ms_; }

 private:
  double ms_ = 0;
};

}  // namespace

double CastTimes::ms(std::int64_t elements, DType from, DType to) {
  if (from == to || elements == 0) return 0;
  const auto [known, is_new] = known_.try_emplace({elements, from, to}, 0.0);
  if (is_new) known->second = measure(elements, from, to);
  return known->second;
}

double CastTimes::measure(std::int64_t elements, DType from, DType to) const {
  constexpr int kTimes = 4;
  const NoGrad not_recorded;
  const Tensor source = zeros({elements}, from, Format::kContiguous, device_);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimes; ++i) {
    SumTimes times;
    {
      const ListenToKernels listening(times);
      static_cast<void>(cast(source, to));
    }
    if (i > 0) least = std::min(least, times.ms());
  }
  return least;
}

}  // namespace mezzo::tune

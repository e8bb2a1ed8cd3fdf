#include "mezzo/nn/init.h"

#include <cmath>
#include <span>

namespace mezzo::nn::init {
namespace {

constexpr float kTruncation = 2;  // in deviations

void check(const Tensor& tensor) {
  check_arg(tensor.defined() && is_floating(tensor.dtype()), "init",
            "only floating-point tensors have initial values. Create it with another dtype");
}

// Fills the tensor by draw(span of floats in row-major order).
template <class Draw>
void fill_from(const Tensor& tensor, const Draw& draw) {
  check(tensor);
  if (tensor.numel() == 0) return;
  const bool direct = tensor.dtype() == DType::kF32 && tensor.is_dense();
  const Tensor values = direct ? tensor : empty(tensor.shape());
  draw(std::span<float>(values.mutable_data<float>(), static_cast<std::size_t>(values.numel())));
  if (!direct) copy_elements(values, tensor);
}

double fan(const Tensor& weight, FanMode mode) {
  const Fans fans = fans_of(weight);
  // An empty weight has nothing to fill; at least 1 keeps its bounds finite.
  return static_cast<double>(
      std::max<std::int64_t>(mode == FanMode::kFanIn ? fans.in : fans.out, 1));
}

double xavier_deviation(const Tensor& weight, double gain) {
  return gain * std::sqrt(2.0 / (fan(weight, FanMode::kFanIn) + fan(weight, FanMode::kFanOut)));
}

double kaiming_deviation(const Tensor& weight, const KaimingOptions& options) {
  return gain(options.nonlinearity, options.slope) / std::sqrt(fan(weight, options.mode));
}

// Uniform in +-bound has the deviation bound / sqrt(3).
void symmetric_uniform(const Tensor& tensor, double deviation, Generator& generator) {
  const double bound = std::sqrt(3.0) * deviation;
  uniform(tensor, -bound, bound, generator);
}

}  // namespace

double gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::kLinear:
    case Nonlinearity::kSigmoid: return 1;
    case Nonlinearity::kTanh: return 5.0 / 3;
    case Nonlinearity::kRelu: return std::sqrt(2.0);
    case Nonlinearity::kLeakyRelu: return std::sqrt(2.0 / (1 + slope * slope));
  }
  return 1;
}

Fans fans_of(const Tensor& weight) {
  check_arg(weight.rank() >= 2, "init", "a weight [out, in, ...] is needed to tell fan_in from ",
            "fan_out, but this is ", weight);
  std::int64_t kernel = 1;
  for (std::size_t axis = 2; axis < weight.rank(); ++axis) kernel *= weight.shape()[axis];
  return {weight.shape()[1] * kernel, weight.shape()[0] * kernel};
}

void constant(const Tensor& tensor, double value) {
  check(tensor);
  fill(tensor, value);
}

void uniform(const Tensor& tensor, double low, double high, Generator& generator) {
  check_arg(low <= high, "init", "the interval [", low, ", ", high, ") is empty. Swap its ends");
  fill_from(tensor, [&](std::span<float> values) {
    fill_uniform(values, generator.reserve(values.size()), static_cast<float>(low),
                 static_cast<float>(high));
  });
}

void normal(const Tensor& tensor, double mean, double deviation, Generator& generator) {
  check_arg(deviation >= 0, "init", "the deviation ", deviation, " is negative. Use 0 or more");
  fill_from(tensor, [&](std::span<float> values) {
    fill_normal(values, generator.reserve(values.size()), static_cast<float>(mean),
                static_cast<float>(deviation));
  });
}

void truncated_normal(const Tensor& tensor, double mean, double deviation, Generator& generator) {
  check_arg(deviation >= 0, "init", "the deviation ", deviation, " is negative. Use 0 or more");
  fill_from(tensor, [&](std::span<float> values) {
    fill_normal(values, generator.reserve(values.size()), 0, 1);
    for (float& value : values) {
      // One value in twenty is drawn again, in order, so the result does not depend on the threads.
      while (std::abs(value) > kTruncation) fill_normal({&value, 1}, generator.reserve(2), 0, 1);
      value = static_cast<float>(mean + deviation * value);
    }
  });
}

void xavier_uniform(const Tensor& weight, double gain, Generator& generator) {
  symmetric_uniform(weight, xavier_deviation(weight, gain), generator);
}

void xavier_normal(const Tensor& weight, double gain, Generator& generator) {
  normal(weight, 0, xavier_deviation(weight, gain), generator);
}

void kaiming_uniform(const Tensor& weight, KaimingOptions options, Generator& generator) {
  symmetric_uniform(weight, kaiming_deviation(weight, options), generator);
}

void kaiming_normal(const Tensor& weight, KaimingOptions options, Generator& generator) {
  normal(weight, 0, kaiming_deviation(weight, options), generator);
}

void default_weight(const Tensor& weight, Generator& generator) {
  kaiming_uniform(weight, {.slope = std::sqrt(5.0)}, generator);
}

void default_bias(const Tensor& bias, const Tensor& weight, Generator& generator) {
  const double bound = 1 / std::sqrt(fan(weight, FanMode::kFanIn));
  uniform(bias, -bound, bound, generator);
}

}  // namespace mezzo::nn::init

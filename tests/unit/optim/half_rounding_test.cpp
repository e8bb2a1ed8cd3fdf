// Tests stochastic rounding of 16-bit parameters: its definition, its mean and its stream, on every
// instruction set.
#include <bit>

#include <hwy/targets.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/cast.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/every_target.h"
#include "tests/unit/optim/random_bits.h"
#include "tests/unit/optim/rules.h"
#include "tests/unit/optim/steps.h"
#include "tests/unit/special_values.h"

namespace mezzo::optim {
namespace {

Tensor half_zeros(const Shape& shape, DType dtype) {
  return zeros(shape, dtype).set_requires_grad(true);
}

// Rounds values stochastically: parameters are 0, gradients -value, and the learning rate 1.
Tensor round(const Tensor& values, DType dtype, RandomPosition position) {
  const Tensor param = zeros(values.shape(), dtype);
  const Tensor grad = empty(values.shape());
  copy_elements(values, grad);
  const HalfUpdate half{.rule = ParamUpdate::kStochastic, .random = position};
  sgd_step(std::vector<SgdTensors>{{param, grad, {}, true, half}}, {.lr = 1, .inv_scale = -1});
  return param;
}

// The definition in double: rounds towards zero, or away from it if the random number, which has as
// many bits as are cut off, is less than the part that is cut off.
float defined(float value, DType dtype, std::uint32_t random_bits) {
  if (!std::isfinite(value)) return value;
  const bool bf16 = dtype == DType::kBf16;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int bits = bf16 ? 8 : 11;
  const int last = bf16 ? exponent - bits : std::max(exponent - bits, -24);
  const double units = std::ldexp(std::abs(static_cast<double>(value)), -last);
  const double down = std::floor(units);
  const double cut = units - down;
  // Adding the random number to the cut part carries if it is at least 1 - cut. Where f16 has no
  // exponent left, it is compared with the part instead.
  const bool subnormal = !bf16 && std::abs(value) < 0x1p-14F;
  const double random = bf16 || subnormal ? random_bits * 0x1p-16 : (random_bits >> 3) * 0x1p-13;
  const bool up = subnormal ? random < cut : random + cut >= 1;
  return static_cast<float>(std::copysign(std::ldexp(down + (up ? 1 : 0), last), value));
}

// Values of every magnitude, exact ones, and those that rounding must not change.
Tensor many_values(std::int64_t count, double smallest) {
  Generator generator(7);
  const Tensor values = randn({count}, generator);
  float* data = values.mutable_data<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    data[i] *= static_cast<float>(std::ldexp(smallest, static_cast<int>(i % 40)));
  }
  const float special[] = {0, 2.5F, 1, -1.5F, kInf, -kInf, 0x1p-24F, 0x1p-14F};
  std::copy(std::begin(special), std::end(special), data + 100);
  return values;
}

class EveryTarget : public test::OnEveryTarget {};

void expect_definition(DType dtype, double smallest, std::uint64_t offset) {
  constexpr std::int64_t kCount = 5003;
  const Tensor values = many_values(kCount, smallest);
  const RandomPosition position{0x123456789abcdefULL, offset};
  const auto got = round(values, dtype, position).to_vector<float>();
  const auto in = values.to_vector<float>();
  for (std::size_t i = 0; i < in.size(); ++i) {
    const float want = defined(in[i], dtype, test::bits_at(position, i));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want))
        << name_of(dtype) << ' ' << i << ": " << in[i] << " gave " << got[i] << ", not " << want;
  }
}

TEST_P(EveryTarget, RoundsEveryElementByItsBits) {
  for (const std::uint64_t offset :
       {std::uint64_t{0}, std::uint64_t{4} << 32, (std::uint64_t{4} << 32) - 400}) {
    expect_definition(DType::kBf16, 0x1p-30, offset);
    expect_definition(DType::kF16, 0x1p-28, offset);  // 2^-24 is f16's smallest value
  }
}

TEST_P(EveryTarget, MastersAndCompensationsRoundAsCoreHalfDoes) {
  const Tensor values = many_values(5003, 0x1p-28);
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor param = zeros(values.shape(), dtype);
    const Tensor rest = zeros(values.shape(), dtype);
    const HalfUpdate half{.rule = ParamUpdate::kKahan, .compensation = rest};
    sgd_step(std::vector<SgdTensors>{{param, values, {}, true, half}}, {.lr = 1, .inv_scale = -1});
    const Tensor want = empty(values.shape(), dtype);
    copy_elements(values, want);  // uses core/half.h
    EXPECT_EQ(param.to_vector<float>(), want.to_vector<float>());
    const auto in = values.to_vector<float>();
    const auto near = want.to_vector<float>();
    std::vector<float> cut(in.size());
    for (std::size_t i = 0; i < in.size(); ++i)
      cut[i] = std::isfinite(near[i]) ? in[i] - near[i] : 0;
    EXPECT_EQ(rest.to_vector<float>(),
              from_values(cut, values.shape()).astype(dtype).to_vector<float>());
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), test::target_name);

// The mean of n roundings to neighbours one unit apart has a deviation of at most unit / 2 /
// sqrt(n); six deviations are exceeded once in 500 million times. Below 2^-14 the resolution of
// f16's probabilities adds 2^-16 of a unit.
void expect_unbiased(double value, DType dtype, double unit, RandomPosition position) {
  constexpr std::int64_t kCount = 200000;
  const auto rounded = round(full({kCount}, value), dtype, position).to_vector<double>();
  double sum = 0;
  for (const double x : rounded) {
    ASSERT_LT(std::abs(x - value), unit);
    sum += x - value;
  }
  EXPECT_LE(std::abs(sum / kCount), unit * (3 / std::sqrt(kCount) + 0x1p-16)) << value;
}

TEST(StochasticRounding, IsRightOnAverage) {
  std::uint64_t seed = 0;
  for (const double part : {0.0, 0.01, 0.25, 0.5, 0.875, 0.999}) {
    for (const double sign : {1.0, -1.0}) {
      const RandomPosition position{++seed, 0};
      const auto at = [&](double base, double unit) {
        return static_cast<double>(static_cast<float>(sign * (base + part * unit)));
      };
      expect_unbiased(at(1, 0x1p-7), DType::kBf16, 0x1p-7, position);
      expect_unbiased(at(3, 0x1p-6), DType::kBf16, 0x1p-6, position);
      expect_unbiased(at(1, 0x1p-10), DType::kF16, 0x1p-10, position);
      expect_unbiased(at(5 * 0x1p-24, 0x1p-24), DType::kF16, 0x1p-24, position);
      expect_unbiased(at(0, 0x1p-24), DType::kF16, 0x1p-24, position);
    }
  }
}

TEST(StochasticRounding, TinyUpdatesMoveParametersOnAverage) {
  constexpr int kSteps = 64;
  constexpr std::int64_t kCount = 20000;
  manual_seed(11);
  const Tensor param = ones({kCount}, DType::kBf16).set_requires_grad(true);
  Sgd sgd({param}, {.lr = 1, .param_update = ParamUpdate::kStochastic});
  param.set_grad(full({kCount}, 0x1p-12));
  for (int step = 0; step < kSteps; ++step) sgd.step();
  double sum = 0;
  for (const double x : param.to_vector<double>()) sum += x;
  // Below 1 the unit is 2^-8, and each of the independent steps deviates by at most half of it.
  const double deviation = 0x1p-9 * std::sqrt(kSteps / static_cast<double>(kCount));
  EXPECT_NEAR(sum / kCount, 1 - kSteps * 0x1p-12, 6 * deviation);
}

// The parameters after three steps.
std::vector<float> trained(std::uint64_t seed, int threads) {
  const test::Threads guard(threads);
  manual_seed(seed);
  std::vector<Tensor> params;
  for (const std::int64_t size : {7, 0, 100003, 1, 30011}) {
    params.push_back(half_zeros({size}, size % 2 == 0 ? DType::kF16 : DType::kBf16));
  }
  Sgd sgd(params, {.lr = 0.1, .momentum = 0.9, .param_update = ParamUpdate::kStochastic});
  std::vector<float> all;
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      params[i].set_grad(gradient(params[i].shape(), step, static_cast<int>(i)));
    }
    sgd.step();
  }
  for (const Tensor& param : params) {
    const auto values = param.to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(StochasticRounding, IsRepeatableAndTheSameForEveryThreadCount) {
  const std::vector<float> first = trained(3, 1);
  EXPECT_EQ(trained(3, 1), first);
  EXPECT_EQ(trained(3, 2), first);
  EXPECT_NE(trained(4, 1), first);
}

TEST(StochasticRounding, ParametersAndStepsUseDifferentBits) {
  manual_seed(5);
  const Tensor a = half_zeros({1000}, DType::kBf16);
  const Tensor b = half_zeros({1001}, DType::kBf16);
  Sgd sgd({a, b}, {.lr = 1, .param_update = ParamUpdate::kStochastic});
  const auto offset = [&] { return sgd.counters()[1].value; };
  EXPECT_EQ(sgd.counters()[0].name, "rounding.seed");
  EXPECT_EQ(sgd.counters()[1].name, "rounding.offset");
  EXPECT_EQ(offset(), 0);
  a.set_grad(full({1000}, 1.003));
  b.set_grad(full({1001}, 1.003));
  sgd.step();
  EXPECT_EQ(offset(), 500 + 504);
  const auto of_a = a.to_vector<float>();
  auto of_b = b.to_vector<float>();
  of_b.pop_back();
  EXPECT_NE(of_a, of_b);
  fill(a, 0);
  fill(b, 0);
  sgd.step();
  EXPECT_NE(a.to_vector<float>(), of_a);
}

}  // namespace
}  // namespace mezzo::optim

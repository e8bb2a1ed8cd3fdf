// Every compiled instruction set gives the results of core/half.h and of the C library.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/ops/targets_test.cpp"
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/foreach_target.h>

#include "mezzo/core/dtype.h"
#include "mezzo/core/random.h"
#include "mezzo/kernels/cpu/simd/math-inl.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/every_target.h"
#include "tests/unit/ops/half_patterns.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// Widths that are not multiples of the vector, so that partial loads and stores run, too.
void widen_all_bf16(const BFloat16* in, float* out, std::int64_t n) {
  map(in, out, n, [](F32Vec v) HWY_ATTR { return v; });
}
void widen_all_f16(const Float16* in, float* out, std::int64_t n) {
  map(in, out, n, [](F32Vec v) HWY_ATTR { return v; });
}
void narrow_bf16(const float* in, BFloat16* out, std::int64_t n) {
  map(in, out, n, [](F32Vec v) HWY_ATTR { return v; });
}
void narrow_f16(const float* in, Float16* out, std::int64_t n) {
  map(in, out, n, [](F32Vec v) HWY_ATTR { return v; });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo {
namespace {

HWY_EXPORT(widen_all_bf16);
HWY_EXPORT(widen_all_f16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(narrow_f16);

// Runs the test once for each instruction set of this build and CPU.
class EveryTarget : public test::OnEveryTarget {};

using test::all_patterns;

// Every f16 and bf16 pattern, its neighbours in f32, the ties between two patterns and their
// neighbours, and values spread over all of f32; the number of values is odd.
std::vector<float> many_floats() {
  std::vector<float> values;
  const auto add = [&](std::uint32_t bits) { values.push_back(std::bit_cast<float>(bits)); };
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    for (const std::uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      add(upper << 16 | low);
    }
    const auto f16 = std::bit_cast<std::uint32_t>(
        static_cast<float>(Float16::from_bits(static_cast<std::uint16_t>(upper))));
    for (const std::uint32_t delta : {0U, 1U, ~0U, 0xfffU, 0x1000U, 0x1001U}) add(f16 + delta);
  }
  for (std::uint64_t bits = 0; bits < (1ULL << 32); bits += 40009) {
    add(static_cast<std::uint32_t>(bits));
  }
  if (values.size() % 2 == 0) values.push_back(0);
  return values;
}

template <class T>
std::uint32_t bits_of(T value) {
  if constexpr (sizeof(T) == 2) {
    return value.bits;
  } else {
    return std::bit_cast<std::uint32_t>(value);
  }
}

template <class From, class To>
void expect_conversions(const std::vector<From>& in,
                        void (*convert)(const From*, To*, std::int64_t)) {
  std::vector<To> out(in.size());
  convert(in.data(), out.data(), static_cast<std::int64_t>(in.size()));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const To expected(static_cast<float>(in[i]));
    if (bits_of(out[i]) == bits_of(expected)) continue;
    if (wrong++ < 5) {
      ADD_FAILURE() << "pattern " << std::hex << bits_of(in[i]) << " gives " << bits_of(out[i])
                    << ", core/half.h gives " << bits_of(expected);
    }
  }
  EXPECT_EQ(wrong, 0U);
}

TEST_P(EveryTarget, WidensEveryPatternAsCoreHalfDoes) {
  expect_conversions<BFloat16, float>(all_patterns<BFloat16>(),
                                      HWY_DYNAMIC_DISPATCH(widen_all_bf16));
  expect_conversions<Float16, float>(all_patterns<Float16>(), HWY_DYNAMIC_DISPATCH(widen_all_f16));
}

TEST_P(EveryTarget, RoundsAsCoreHalfDoes) {
  const std::vector<float> values = many_floats();
  expect_conversions<float, BFloat16>(values, HWY_DYNAMIC_DISPATCH(narrow_bf16));
  expect_conversions<float, Float16>(values, HWY_DYNAMIC_DISPATCH(narrow_f16));
}

// Kernels that take different paths for different vector lengths, on odd sizes, against f64.
TEST_P(EveryTarget, KernelsAgreeWithTheReference) {
  Generator generator(5);
  const Tensor x = randn({7, 13, 5, 9}, generator);
  const Tensor row = randn({9}, generator);
  const Tensor channel = randn({1, 13, 1, 1}, generator);
  const Tensor labels = zeros({7}, DType::kI64);
  using Compute = std::function<Tensor(DType)>;
  const std::vector<std::pair<const char*, Compute>> cases = {
      {"add", [&](DType t) { return x.astype(t) + row.astype(t); }},
      {"mul channels-last",
       [&](DType t) { return to_format(x.astype(t), Format::kChannelsLast) * channel.astype(t); }},
      {"sum of columns",
       [&](DType t) {
         return sum(x.astype(t), {0, 2, 3});
       }},
      {"sum of rows", [&](DType t) { return sum(x.astype(t), {3}); }},
      {"softmax", [&](DType t) { return softmax(x.astype(t), 1); }},
      {"log_softmax", [&](DType t) { return log_softmax(x.astype(t), -1); }},
      {"gelu", [&](DType t) { return gelu(x.astype(t)); }},
      {"tanh", [&](DType t) { return tanh(x.astype(t)); }},
      {"transpose", [&](DType t) { return contiguous(transpose(x.astype(t), 1, 3)); }},
      {"cross_entropy", [&](DType t) { return cross_entropy(flatten(x.astype(t), 1), labels); }},
  };
  for (const auto& [name, compute] : cases) {
    const auto got = compute(DType::kF32).to_vector<double>();
    const auto want = compute(DType::kF64).to_vector<double>();
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 1e-5 * std::max(1.0, std::abs(want[i]))) << name << " " << i;
    }
  }
}

std::vector<std::int64_t> built_targets() { return hwy::SupportedAndGeneratedTargets(); }

INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget, testing::ValuesIn(built_targets()),
                         test::target_name);

}  // namespace
}  // namespace mezzo
#endif

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
#include "mezzo/kernels/cpu/simd/float8-inl.h"
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

namespace {

template <class T>
void widen_float8_row(const T* in, float* out, std::int64_t n) {
  const std::int64_t i = for_whole_vectors(
      0, n, [&](std::int64_t k, auto asks) HWY_ATTR { store(load(in + k, asks), out + k, asks); });
  if (i < n) store_part(load_part(in + i, n - i), out + i, n - i);
}

template <bool kSaturates, class T>
void narrow_float8_row(const float* in, T* out, std::int64_t n) {
  const std::int64_t i = for_whole_vectors(0, n, [&](std::int64_t k, auto asks) HWY_ATTR {
    store<kSaturates>(load(in + k, asks), out + k, asks);
  });
  if (i < n) store_part<kSaturates>(load_part(in + i, n - i), out + i, n - i);
}

}  // namespace

// Widths that are not multiples of the vector, so that partial loads and stores run, too.
void widen_e4m3(const Float8E4M3* in, float* out, std::int64_t n) { widen_float8_row(in, out, n); }
void widen_e5m2(const Float8E5M2* in, float* out, std::int64_t n) { widen_float8_row(in, out, n); }
void narrow_e4m3(const float* in, Float8E4M3* out, std::int64_t n) {
  narrow_float8_row<false>(in, out, n);
}
void narrow_e5m2(const float* in, Float8E5M2* out, std::int64_t n) {
  narrow_float8_row<false>(in, out, n);
}
void saturate_e4m3(const float* in, Float8E4M3* out, std::int64_t n) {
  narrow_float8_row<true>(in, out, n);
}
void saturate_e5m2(const float* in, Float8E5M2* out, std::int64_t n) {
  narrow_float8_row<true>(in, out, n);
}
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
HWY_EXPORT(widen_e4m3);
HWY_EXPORT(widen_e5m2);
HWY_EXPORT(narrow_e4m3);
HWY_EXPORT(narrow_e5m2);
HWY_EXPORT(saturate_e4m3);
HWY_EXPORT(saturate_e5m2);

// Runs the test once for each instruction set of this build and CPU.
class EveryTarget : public test::OnEveryTarget {};

using test::all_patterns;

// Every f16, bf16 and 8-bit pattern, its neighbours in f32, the ties between two patterns and their
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
  for (std::uint32_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    for (const float value : {static_cast<float>(Float8E4M3::from_bits(byte)),
                              static_cast<float>(Float8E5M2::from_bits(byte))}) {
      // Ties of normal numbers lie half a unit away; those of subnormal ones are bf16 patterns.
      for (const std::uint32_t delta : {0U, 0x80000U, 0x100000U}) {
        for (const std::uint32_t step : {0U, 1U, ~0U}) {
          add(std::bit_cast<std::uint32_t>(value) + delta + step);
        }
      }
    }
  }
  for (std::uint64_t bits = 0; bits < (1ULL << 32); bits += 40009) {
    add(static_cast<std::uint32_t>(bits));
  }
  if (values.size() % 2 == 0) values.push_back(0);
  return values;
}

template <class T>
std::uint32_t bits_of(T value) {
  if constexpr (sizeof(T) <= 2) {
    return value.bits;
  } else {
    return std::bit_cast<std::uint32_t>(value);
  }
}

template <class From, class To>
void expect_conversions(
    const std::vector<From>& in, void (*convert)(const From*, To*, std::int64_t),
    To (*rule)(From) = [](From value) { return To(static_cast<float>(value)); }) {
  std::vector<To> out(in.size());
  convert(in.data(), out.data(), static_cast<std::int64_t>(in.size()));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const To expected = rule(in[i]);
    if (bits_of(out[i]) == bits_of(expected)) continue;
    if (wrong++ < 5) {
      ADD_FAILURE() << "pattern " << std::hex << bits_of(in[i]) << " gives " << bits_of(out[i])
                    << ", mezzo/core gives " << bits_of(expected);
    }
  }
  EXPECT_EQ(wrong, 0U);
}

TEST_P(EveryTarget, WidensEveryPatternAsCoreHalfDoes) {
  expect_conversions<BFloat16, float>(all_patterns<BFloat16>(),
                                      HWY_DYNAMIC_DISPATCH(widen_all_bf16));
  expect_conversions<Float16, float>(all_patterns<Float16>(), HWY_DYNAMIC_DISPATCH(widen_all_f16));
}

template <class T>
std::vector<T> all_codes() {
  std::vector<T> codes;
  for (std::uint32_t code = 0; code < 257; ++code) {  // an odd number
    codes.push_back(T::from_bits(static_cast<std::uint8_t>(code)));
  }
  return codes;
}

TEST_P(EveryTarget, WidensEveryCodeAsCoreFloat8Does) {
  expect_conversions<Float8E4M3, float>(all_codes<Float8E4M3>(), HWY_DYNAMIC_DISPATCH(widen_e4m3));
  expect_conversions<Float8E5M2, float>(all_codes<Float8E5M2>(), HWY_DYNAMIC_DISPATCH(widen_e5m2));
}

TEST_P(EveryTarget, RoundsAsCoreFloat8Does) {
  const std::vector<float> values = many_floats();
  expect_conversions<float, Float8E4M3>(values, HWY_DYNAMIC_DISPATCH(narrow_e4m3));
  expect_conversions<float, Float8E5M2>(values, HWY_DYNAMIC_DISPATCH(narrow_e5m2));
  expect_conversions<float, Float8E4M3>(values, HWY_DYNAMIC_DISPATCH(saturate_e4m3),
                                        Float8E4M3::saturated);
  expect_conversions<float, Float8E5M2>(values, HWY_DYNAMIC_DISPATCH(saturate_e5m2),
                                        Float8E5M2::saturated);
}

// All parts that remain, and nothing beyond them.
TEST_P(EveryTarget, PartsOfEightBitsEndWhereTheyShould) {
  std::vector<float> numbers(40);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    std::vector<Float8E5M2> codes(numbers.size(), Float8E5M2::from_bits(0x55));
    HWY_DYNAMIC_DISPATCH(narrow_e5m2)(numbers.data(), codes.data(), static_cast<std::int64_t>(n));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      ASSERT_EQ(codes[i].bits, i < n ? Float8E5M2(numbers[i]).bits : 0x55) << n << " " << i;
    }
    std::vector<float> wide(numbers.size(), -1);
    HWY_DYNAMIC_DISPATCH(widen_e5m2)(codes.data(), wide.data(), static_cast<std::int64_t>(n));
    for (std::size_t i = 0; i < wide.size(); ++i) {
      ASSERT_EQ(wide[i], i < n ? static_cast<float>(codes[i]) : -1) << n << " " << i;
    }
  }
}

// Flat passes, rows, tiles and narrow rows, of sizes with remainders; see kernels/cpu/cast.cpp.
TEST_P(EveryTarget, CopiesOfEightBitsHaveTheSameElements) {
  Generator generator(6);
  const Tensor x = randn({3, 37, 5, 41}, generator);
  const auto floats = [](const Tensor& tensor) { return tensor.astype(DType::kF32); };
  for (const DType dtype : {DType::kE4m3, DType::kE5m2}) {
    const Tensor narrow = x.astype(dtype);
    const auto expect_equal = [&](const Tensor& got, const Tensor& want, const char* what) {
      EXPECT_EQ(got.to_vector<float>(), want.to_vector<float>()) << what << " " << name_of(dtype);
    };
    for (const Format format : {Format::kContiguous, Format::kChannelsLast}) {
      expect_equal(to_format(narrow, format), floats(narrow), "to_format");
      expect_equal(to_format(x, format).astype(dtype), floats(narrow), "cast of a format");
    }
    const Tensor rows = reshape(narrow, {111, 205});
    const Tensor wide_rows = reshape(floats(narrow), {111, 205});
    expect_equal(contiguous(transpose(rows, 0, 1)), contiguous(transpose(wide_rows, 0, 1)),
                 "transpose");
    expect_equal(transpose(rows, 0, 1).astype(DType::kBf16), contiguous(transpose(wide_rows, 0, 1)),
                 "cast of a transpose");
    expect_equal(transpose(reshape(x, {111, 205}), 0, 1).astype(dtype),
                 contiguous(transpose(wide_rows, 0, 1)), "cast to a transpose");
    const Tensor strided = slice(rows, 1, 3, 60, 3);
    expect_equal(strided.astype(DType::kF16), slice(wide_rows, 1, 3, 60, 3), "strided");
  }
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

// One call of a convolution's kernel and its expected result, for tests of kernels that are chosen
// for some shapes only.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "tests/unit/ops/support.h"
#include "tests/unit/threads.h"

namespace mezzo::test {

// A call of a kernel, and of the operation that it computes.
struct ConvCall {
  const char* op;
  Support (*supports)(const KernelArgs&);
  void (*run)(const KernelArgs&);
  Tensor a, b, bias;
  Shape result;
  Attrs attrs;
  std::int64_t terms;  // maximum number of products in one sum

  // The same call with a bias as large as its sums.
  ConvCall with_bias(DType dtype) const {
    ConvCall call = *this;
    call.bias = random_tensor({result[1]}, 3, dtype);
    return call;
  }

  std::array<const Tensor*, 3> inputs() const { return {&a, &b, &bias}; }
  Tensor result_of(DType dtype) const {
    Tensor out = empty(result, dtype, Format::kChannelsLast);
    const auto in = inputs();
    const KernelArgs args{in, {&out, 1}, attrs};
    EXPECT_TRUE(supports(args)) << op << " " << supports(args).reason;
    run(args);
    return out;
  }
};

// Whether the kernel accepts the call.
inline bool is_taken(const ConvCall& c, DType result = DType::kBf16) {
  Tensor out = empty(c.result, result, Format::kChannelsLast);
  const auto in = c.inputs();
  return static_cast<bool>(c.supports({in, {&out, 1}, c.attrs}));
}

// Expects that any number of threads gives the same bits in bf16 results.
inline void expect_same_by_threads(const std::vector<ConvCall>& calls) {
  const auto results = [&] {
    std::vector<std::vector<float>> all;
    for (const ConvCall& c : calls) all.push_back(c.result_of(DType::kBf16).to_vector<float>());
    return all;
  };
  const Threads one(1);
  const auto expected = results();
  for (const int count : {2, 3, 5, 40}) {
    const Threads several(count);
    EXPECT_TRUE(results() == expected) << count;
  }
}

// The operation in f64, on the inputs or on their magnitudes.
inline std::vector<double> plain_call(const ConvCall& c, bool of_magnitudes) {
  std::vector<Tensor> wide;
  for (const Tensor* input : c.inputs()) {
    if (!input->defined()) continue;
    wide.push_back(empty(input->shape(), DType::kF64));
    copy_elements(*input, wide.back());
    auto* values = wide.back().mutable_data<double>();
    for (std::int64_t i = 0; of_magnitudes && i < input->numel(); ++i) {
      values[i] = std::abs(values[i]);
    }
  }
  std::vector<const Tensor*> inputs;
  for (const Tensor& tensor : wide) inputs.push_back(&tensor);
  return call(*find_op(c.op), inputs, c.attrs)[0].to_vector<double>();
}

inline void check_call(const ConvCall& c, DType result) {
  const std::vector<double> got = c.result_of(result).to_vector<double>();
  const std::vector<double> want = plain_call(c, false);
  const std::vector<double> magnitudes = plain_call(c, true);
  ASSERT_EQ(got.size(), want.size());
  // Each product and each addition is rounded once to f32, and the result once to its own dtype.
  const std::int64_t terms = c.terms + (c.bias.defined() ? 1 : 0);
  const double each = 2 * static_cast<double>(terms) * 0x1p-24;
  const double last = result == DType::kF32 ? 0 : epsilon_of(result) / 2;
  const double subnormal = result == DType::kF16 ? 0x1p-25 : 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double sum = each * magnitudes[i];
    ASSERT_NEAR(got[i], want[i], sum + last * (std::abs(want[i]) + sum) + subnormal)
        << concat(c.op, ", ", c.a, ", ", c.b, " at ", i);
  }
}

}  // namespace mezzo::test

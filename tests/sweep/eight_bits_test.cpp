// What operations do with tensors of eight bits: casts and views take them, the others refuse them.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/sweep/sweep.h"
#include "tests/unit/message_of.h"

namespace mezzo::sweep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr DType kEightBits[] = {DType::kE4m3, DType::kE5m2};

TEST(EightBits, CastsAreThoseOfSingleElements) { expect_eight_bit_casts(); }

class EveryOpOnEightBits : public testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOpOnEightBits, RefusesThemUnlessItSaysOtherwise) {
  const OpDef& op = *GetParam();
  if (op.takes_eight_bits || op.view != nullptr) return;
  for (const DType dtype : kEightBits) {
    const Sample sample = op.samples()[0];
    const std::vector<Tensor> inputs = make_inputs(op, sample, dtype);
    const bool is_given = std::ranges::any_of(
        inputs, [](const Tensor& input) { return input.defined() && is_eight_bit(input.dtype()); });
    if (!is_given) continue;
    const std::string message =
        message_of<ArgumentError>([&] { call(op, pointers(inputs), sample.attrs); });
    EXPECT_THAT(message, StartsWith(concat("[", op.name, "] input ")));
    EXPECT_THAT(message, HasSubstr(concat(dtype, "[")));
    EXPECT_THAT(message, HasSubstr("whose numbers mean nothing without a scale. Use "));
  }
}

TEST_P(EveryOpOnEightBits, ViewsTakeThem) {
  const OpDef& op = *GetParam();
  if (op.view == nullptr) return;
  for (const DType dtype : kEightBits) {
    const Sample sample = op.samples()[0];
    const std::vector<Tensor> inputs = make_inputs(op, sample, dtype);
    const Tensor y = call(op, pointers(inputs), sample.attrs)[0];
    EXPECT_EQ(y.storage(), inputs[0].storage()) << op.name;
    EXPECT_EQ(y.dtype(), dtype) << op.name;
  }
}

INSTANTIATE_TEST_SUITE_P(EightBits, EveryOpOnEightBits, testing::ValuesIn(all_ops()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

// Before promotion, which would cast them.
TEST(EightBits, AreRefusedBesideOtherDtypes) {
  const Tensor narrow = ones({2}).astype(DType::kE4m3);
  const char* const wanted =
      "[add] input 1 is e4m3[2], whose numbers mean nothing without a scale. Use scaled_matmul(), "
      "or cast() it";
  EXPECT_EQ(message_of<ArgumentError>([&] { ones({2}) + narrow; }), wanted);
  EXPECT_EQ(message_of<ArgumentError>([&] { arange(2, DType::kI64) + narrow; }), wanted);
  EXPECT_THAT(message_of<ArgumentError>([&] { narrow + narrow; }), StartsWith("[add] input 0 is"));
}

TEST(EightBits, AreRefusedByRegionsToo) {
  const Tensor narrow = ones({2, 2}).astype(DType::kE5m2);
  const amp::Autocast region(DType::kBf16);
  EXPECT_THAT(message_of<ArgumentError>([&] {
                matmul(ones({2, 2}), narrow);
              }),
              StartsWith("[matmul] input 1 is e5m2[2, 2]"));
}

TEST(EightBits, AreRefusedByChangesInPlace) {
  const Tensor x = ones({2});
  const Tensor narrow = ones({2}).astype(DType::kE4m3);
  EXPECT_THAT(message_of<ArgumentError>([&] { add_into(x, narrow); }),
              HasSubstr("e4m3[2], whose numbers mean nothing"));
  EXPECT_THAT(message_of<ArgumentError>([&] { add_into(narrow, x); }),
              HasSubstr("e4m3[2], whose numbers mean nothing"));
}

TEST(EightBits, HaveNoGradients) {
  for (const DType dtype : kEightBits) {
    Tensor narrow = ones({2}).astype(dtype);
    EXPECT_EQ(message_of<ArgumentError>([&] { narrow.set_requires_grad(true); }),
              concat("[set_requires_grad] only floats of 16 bits or more have gradients, this "
                     "tensor is ",
                     dtype, ". Use astype(DType::kF32)"));
    EXPECT_FALSE(narrow.requires_grad());
  }
}

// A gradient through a cast to eight bits would be one of rounding alone: what scales the numbers
// has to be part of it.
TEST(EightBits, ACastToThemEndsDifferentiation) {
  const Tensor x = ones({2, 3}).set_requires_grad(true);
  for (const DType dtype : kEightBits) {
    const Tensor narrow = cast(x, dtype);
    EXPECT_FALSE(narrow.requires_grad());
    EXPECT_FALSE(transpose(narrow, 0, 1).requires_grad());
    EXPECT_FALSE(cast(narrow, DType::kF32).requires_grad());
    const Tensor loss = sum(cast(narrow, DType::kF32) + x);
    const Tensor gradient = grad({&loss, 1}, {&x, 1})[0];
    EXPECT_EQ(gradient.to_vector<float>(), std::vector<float>(6, 1)) << "of the sum alone";
  }
}

}  // namespace
}  // namespace mezzo::sweep

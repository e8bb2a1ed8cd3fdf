#include "mezzo/autograd/engine.h"

#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/allocator.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;

Tensor leaf(const Floats& values, const Shape& shape) {
  return from_values(values, shape).set_requires_grad(true);
}

TEST(Backward, ProductRule) {
  const Tensor a = leaf({1, 2, 3}, {3});
  const Tensor b = leaf({4, 5, 6}, {3});
  sum(a * b).backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{4, 5, 6}));
  EXPECT_EQ(b.grad().to_vector<float>(), (Floats{1, 2, 3}));
}

TEST(Backward, GradientsAddUpOverCallsAndOverUses) {
  const Tensor x = leaf({3}, {1});
  for (int i = 0; i < 2; ++i) sum(x * x + x).backward();
  EXPECT_EQ(x.grad().item(), 14);  // 2 * (2 * 3 + 1)
}

TEST(Backward, SharedGradientsAreNotOverwritten) {
  // add passes the same gradient to both operands; accumulating into one must not change the other.
  const Tensor a = leaf({1}, {1});
  const Tensor b = leaf({1}, {1});
  const Tensor y = a + b;
  sum(y + a).backward();
  EXPECT_EQ(a.grad().item(), 2);
  EXPECT_EQ(b.grad().item(), 1);
}

TEST(Backward, AnExpandedGradientIsNotAccumulatedInto) {
  // sum() passes one value expanded to all elements: adding in place would add everything to it.
  const Tensor x = ones({1000}).set_requires_grad(true);
  Tensor h = x * x;
  Tensor y = h + relu(relu(h));
  h = Tensor();
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), Floats(1000, 4));
}

TEST(Backward, BroadcastGradientsAreSummed) {
  const Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor bias = leaf({1, 1, 1}, {3});
  sum((x + bias) * (x + bias)).backward();
  EXPECT_EQ(bias.grad().to_vector<float>(), (Floats{14, 18, 22}));
}

TEST(Backward, CastKeepsParameterGradientsInF32) {
  const Tensor weight = leaf({1, 2}, {2});
  const Tensor x = from_values({1.0F, 1.0F}, {2}).astype(DType::kBf16);
  const Tensor y = weight.astype(DType::kBf16) * x;
  EXPECT_EQ(y.dtype(), DType::kBf16);
  sum(y).backward();
  EXPECT_EQ(weight.grad().dtype(), DType::kF32);
  EXPECT_EQ(weight.grad().to_vector<float>(), (Floats{1, 1}));
}

TEST(Backward, ParameterCopyFollowsInPlaceChanges) {
  const Tensor weight = leaf({1, 2}, {2});
  EXPECT_EQ(weight.astype(DType::kBf16).to_vector<float>(), (Floats{1, 2}));
  fill(weight, 3);
  EXPECT_EQ(weight.astype(DType::kBf16).to_vector<float>(), (Floats{3, 3}));
}

TEST(Backward, ParameterCopyMadeUnderNoGradDoesNotLoseGradients) {
  const Tensor weight = leaf({1, 2}, {2});
  {
    const NoGrad guard;
    EXPECT_FALSE(weight.astype(DType::kBf16).requires_grad());
  }
  sum(weight.astype(DType::kBf16)).backward();
  EXPECT_TRUE(weight.grad().defined());
}

TEST(Backward, NoGradRecordsNothing) {
  const Tensor x = leaf({1}, {1});
  const NoGrad guard;
  EXPECT_FALSE((x * x).requires_grad());
}

TEST(Backward, IntegersEndDifferentiation) {
  const Tensor x = leaf({1, 0}, {2});
  const Tensor labels = (x * 1.0).astype(DType::kI64);
  EXPECT_FALSE(labels.requires_grad());
  EXPECT_FALSE(sum(x, {}, false, DType::kI64).requires_grad());
  const Tensor logits = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  cross_entropy(logits, labels).backward();
  EXPECT_TRUE(logits.grad().defined());
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, SecondOrder) {
  const Tensor x = leaf({2, 3}, {2});
  const Tensor y = sum(x * x * x);
  const Tensor first = grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0];
  EXPECT_EQ(first.to_vector<float>(), (Floats{12, 27}));
  sum(first).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{12, 18}));
}

TEST(Backward, GradOfAnIntermediateTensor) {
  const Tensor x = leaf({2}, {1});
  const Tensor y = x * x;
  const Tensor z = sum(y * y);
  EXPECT_EQ(grad({&z, 1}, {&y, 1})[0].item(), 8);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, GradOfTensorsThatAreNamedTwice) {
  const Tensor x = leaf({2}, {1});
  const Tensor y = x * x;
  const Tensor z = sum(y * y);
  const Tensor inputs[] = {x, y, x, y, x};
  const std::vector<Tensor> grads = grad({&z, 1}, inputs);
  for (const std::size_t i : {0, 2, 4}) {
    ASSERT_TRUE(grads[i].defined()) << i;
    EXPECT_EQ(grads[i].item(), 32);
  }
  for (const std::size_t i : {1, 3}) EXPECT_EQ(grads[i].item(), 8);
}

TEST(Backward, ValueAndGrad) {
  const Tensor x = leaf({2}, {1});
  const auto step = value_and_grad([&] { return sum(x * x); }, {x});
  const ValueAndGrad result = step();
  EXPECT_EQ(result.value.item(), 4);
  EXPECT_EQ(result.grads[0].item(), 4);
}

TEST(Backward, InPlaceChangeOfASavedTensorIsRefused) {
  const Tensor a = leaf({1, 2}, {2});
  const Tensor b = from_values({3.0F, 4.0F}, {2});
  const Tensor y = sum(a * b);
  fill(b, 0);
  EXPECT_EQ(message_of([&] { y.backward(); }),
            "[mul] input 1 (f32[2]) is needed for the gradient, but was changed in place since the "
            "forward pass. Change a copy, or change it after backward()");
}

TEST(Backward, AFilledParameterCopyOutlivesAChangeOfTheParameter) {
  const Tensor weight = leaf({1, 2}, {2});
  const Tensor x = leaf({1, 1}, {2});
  const Tensor low = weight.astype(DType::kBf16);
  const Tensor y = sum(x.astype(DType::kBf16) * low);
  fill(weight, 0);
  EXPECT_NO_THROW(y.backward());  // the product has read the copy, so it is filled and valid
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{1, 2}));
}

TEST(Backward, AnUnreadParameterCopyIsOfTheParameterAsItWas) {
  const Tensor weight = leaf({1, 2}, {2});
  const Tensor low = weight.astype(DType::kBf16).detach();
  const Tensor kept = weight.detach().astype(DType::kBf16);
  fill(weight, 0);
  EXPECT_EQ(low.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(kept.to_vector<float>(), (Floats{1, 2}));
}

// If a change is counted after it, the copy can no longer be made.
TEST(Backward, AParameterCopyThatIsReadTooLateSaysSo) {
  const Tensor weight = leaf({1, 2}, {2});
  const Tensor low = weight.astype(DType::kBf16);
  weight.bump_version();
  EXPECT_THAT(message_of<ArgumentError>([&] { low.to_vector<float>(); }),
              testing::HasSubstr("were changed in place since"));
}

// The copy holds the parameter from which it is made, and the parameter holds the copy.
TEST(Backward, AParameterEndsThoughACopyOfItWasNeverRead) {
  const auto live_bytes = [] { return cpu_allocator().stats().live_bytes; };
  const std::int64_t before = live_bytes();
  leaf({1, 2}, {2}).astype(DType::kBf16);
  EXPECT_EQ(live_bytes(), before);
}

// Making the copy of the copy also makes the copy.
TEST(Backward, AParameterCopyThatIsTrainedIsCopiedItself) {
  const Tensor weight = leaf({1, 2 + 0x1p-9F}, {2});
  const Tensor low = weight.astype(DType::kBf16).detach().set_requires_grad(true);
  EXPECT_EQ(low.astype(DType::kF16).to_vector<float>(), (Floats{1, 2}));
}

// Two parameters with the same first element and version.
TEST(Backward, ParametersInOneBlockHaveCopiesOfTheirOwn) {
  const Tensor block = from_values({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  const auto part = [&](const Shape& shape, const Strides& strides) {
    return alias(block, shape, strides, 0).set_requires_grad(true);
  };
  const Tensor two = part({2}, {1});
  const Tensor all = part({2, 3}, {3, 1});
  const Tensor flat = part({6}, {1});
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    for (const Tensor& param : {two, all, flat}) {
      const Tensor copy = param.astype(dtype);
      EXPECT_EQ(copy.storage()->bytes(), copy.bytes());
      EXPECT_EQ(copy.to_vector<float>(), param.to_vector<float>());
    }
  }
}

TEST(Backward, TwiceThroughAFreedGraphIsRefused) {
  const Tensor x = leaf({1}, {1});
  const Tensor y = sum(x * x);
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(x.grad().item(), 4);
  EXPECT_THAT(message_of([&] { y.backward(); }), testing::HasSubstr("retain_graph"));
}

TEST(Backward, NeedsAScalarOrAGradient) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * x;
  EXPECT_THAT(message_of([&] { y.backward(); }), testing::HasSubstr("Reduce it to a scalar"));
  y.backward(from_values({1.0F, 10.0F}, {2}));
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{2, 40}));
  EXPECT_THAT(message_of([&] { from_values({1.0F}, {}).backward(); }),
              testing::HasSubstr("was not computed from anything"));
}

TEST(Backward, AnErrorInTheMiddleLeavesTheGraphUsable) {
  const Tensor a = leaf({1, 2}, {2});
  const Tensor b = from_values({3.0F, 4.0F}, {2});
  const Tensor product = a * b;
  const Tensor y = sum(product) + sum(a);
  fill(b, 0);
  EXPECT_THROW(y.backward({}, true), ArgumentError);
  EXPECT_THROW(y.backward({}, true), ArgumentError);
}

TEST(Backward, LongChainsAreFreedWithoutRecursion) {
  Tensor x = leaf({1}, {1});
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = relu(y);
  y = Tensor();
  SUCCEED();
}

TEST(Views, ExpandRefusesNegativeSizes) {
  EXPECT_EQ(message_of<ArgumentError>([] { expand(zeros({1}), {-3}); }),
            "[expand] a size is negative: [-3]. Give every size");
}

TEST(Views, ReshapeOfAPermutedTensorCopiesOnlyWhenItMust) {
  const Tensor x = arange(24).set_requires_grad(true);
  const Tensor y = reshape(x, {2, 3, 4});
  EXPECT_EQ(y.storage(), x.storage());
  EXPECT_EQ(reshape(permute(y, {1, 2, 0}), {12, 2}).storage(), x.storage());
  const Tensor merged = reshape(permute(y, {2, 0, 1}), {8, 3});
  EXPECT_NE(merged.storage(), x.storage());
  EXPECT_EQ(merged.to_vector<float>()[1], 4);
  sum(merged * merged).backward();
  EXPECT_EQ(x.grad().to_vector<float>()[23], 46);
}

// The product of the sizes would wrap around to the actual number of elements.
TEST(Views, SizesThatCannotBeCountedAreRefused) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 32;
  EXPECT_THAT(message_of<ArgumentError>([] {
                reshape(zeros({0}), {kLarge, kLarge});
              }),
              testing::StartsWith("[reshape] f32[4294967296, 4294967296] has more bytes than"));
  EXPECT_THROW(reshape(zeros({4}), {kLarge, kLarge, -1}), ArgumentError);
  EXPECT_THROW(reshape(zeros({0}), {0, kLarge, kLarge}), ArgumentError);
  EXPECT_THROW(expand(zeros({1, 1}), {kLarge, kLarge}), ArgumentError);
  EXPECT_EQ(reshape(zeros({4}), {2, -1}).shape(), Shape({2, 2}));
  EXPECT_EQ(reshape(zeros({0, 3}), {3, -1}).shape(), Shape({3, 0}));
}

// A user may change the gradient of one leaf in place.
TEST(LeafGradients, HaveMemoryOfTheirOwn) {
  const Tensor a = leaf({1, 2}, {2});
  const Tensor b = leaf({3, 4}, {2});
  const Tensor start = from_values({5.0F, 6.0F}, {2});
  (a + b).backward(start);
  a.backward(start);
  fill(a.grad(), 0);
  EXPECT_EQ(b.grad().to_vector<float>(), (Floats{5, 6}));
  EXPECT_EQ(start.to_vector<float>(), (Floats{5, 6}));
  const Tensor x = ones({3}).set_requires_grad(true);
  sum(x).backward();
  EXPECT_TRUE(x.grad().is_dense());
  x.grad().mutable_data<float>()[0] = 7;
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{7, 1, 1}));
}

TEST(LeafGradients, HoldNoGraphUnlessAsked) {
  const Tensor x = leaf({2}, {1});
  const Tensor start = leaf({3}, {1});
  (x + leaf({1}, {1})).backward(start * start);
  EXPECT_FALSE(x.grad().requires_grad());
  EXPECT_EQ(x.grad().item(), 9);
  EXPECT_FALSE(start.grad().defined());
}

TEST(LeafGradients, AreNotCollectedByWhatWasFrozenSince) {
  const Tensor x = leaf({2}, {1});
  Tensor frozen = leaf({3}, {1});
  const Tensor y = x * frozen;
  frozen.set_requires_grad(false);
  y.backward();
  EXPECT_FALSE(frozen.grad().defined());
  EXPECT_EQ(x.grad().item(), 3);
}

TEST(LeafGradients, AreUntouchedIfAnArgumentIsWrong) {
  const Tensor x = leaf({2}, {1});
  const std::vector<Tensor> outputs{x, ones({1})};
  EXPECT_THAT(message_of<ArgumentError>([&] { backward(outputs); }),
              testing::HasSubstr("was not computed from anything"));
  EXPECT_FALSE(x.grad().defined());
}

// The sum passes on one gradient, which the caller also holds.
TEST(LeafGradients, AreNobodyElses) {
  const Tensor a = ones({2}).set_requires_grad(true);
  const Tensor b = ones({2}).set_requires_grad(true);
  const Tensor seed = ones({2});
  add(a, b).backward(seed);
  fill(a.grad(), 5);
  EXPECT_EQ(b.grad().to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(seed.to_vector<float>(), (Floats{1, 1}));
}

TEST(LeafGradients, HaveTheDtypeOfTheirLeaf) {
  const Tensor a = ones({2}, DType::kBf16).set_requires_grad(true);
  a.backward(full({2}, 3));
  EXPECT_EQ(a.grad().dtype(), DType::kBf16);
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{3, 3}));
}

// The first gradient of a 16-bit copy has 16 bits; the second, a product's weight gradient, is f32.
TEST(Backward, GradientsOfSeveralDtypesAddUp) {
  const Tensor weight = full({2, 2}, 3).set_requires_grad(true);
  const Tensor copy = weight.astype(DType::kBf16);
  const Tensor product = sum(matmul(ones({4, 2}, DType::kBf16), copy));
  const Tensor other = sum(relu(copy));
  (product + other).backward();
  EXPECT_EQ(weight.grad().dtype(), DType::kF32);
  EXPECT_EQ(weight.grad().to_vector<float>(), (Floats{5, 5, 5, 5}));
}

TEST(Backward, GradOfTwoIntermediateTensorsInEitherOrder) {
  const Tensor x = ones({2}).set_requires_grad(true);
  const Tensor first = x * 2;
  const Tensor second = first * 1.5 * 2;  // with a node in between
  const Tensor y = sum(second * second);
  for (const bool is_reversed : {false, true}) {
    std::vector<Tensor> inputs{first, second};
    if (is_reversed) std::swap(inputs[0], inputs[1]);
    std::vector<Tensor> grads = grad({&y, 1}, inputs, {}, {.retain_graph = true});
    if (is_reversed) std::swap(grads[0], grads[1]);
    EXPECT_EQ(grads[0].to_vector<float>(), (Floats{36, 36}));
    EXPECT_EQ(grads[1].to_vector<float>(), (Floats{12, 12}));
  }
}

// Gradients that arrived at later nodes must not remain for the next pass.
TEST(Backward, AnErrorLeavesNoGradientsOnTheWay) {
  const Tensor x = ones({2}).set_requires_grad(true);
  const Tensor y = sum(x * 3);
  const Tensor factor = ones({2});
  const Tensor z = sum(x * factor);
  const Tensor both = y + z;
  fill(factor, 2);
  EXPECT_THROW(both.backward(), ArgumentError);
  EXPECT_FALSE(x.grad().defined());
  y.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{3, 3}));
}

// A batch normalisation with a residual adds the gradients of two readers itself.
TEST(Backward, ANormWithAResidualAddsAllGradients) {
  const Tensor x = from_values({-1.0F, 0.0F, 1.0F, 2.0F}, {4, 1});
  const Tensor residual = full({4, 1}, 8).set_requires_grad(true);
  const auto norm = [&] { return batch_norm(x, {}, {}, {.relu = true, .residual = residual}).y; };
  const auto read_often = [](const Tensor& y, int readers) {
    Tensor loss = sum(y);
    for (int i = 2; i <= readers; ++i) loss = loss + sum(y * i);
    return loss;
  };
  for (const int readers : {1, 2, 3, 4}) {
    const int sum_of_factors = readers * (readers + 1) / 2;
    const Floats all(4, static_cast<float>(sum_of_factors));
    read_often(norm(), readers).backward();
    EXPECT_EQ(residual.grad().to_vector<float>(), all) << readers;
    residual.clear_grad();
    const Tensor y = norm();
    const Tensor loss = read_often(y, readers);
    const Tensor inputs[] = {y, residual};
    for (const bool create_graph : {false, true}) {
      const std::vector<Tensor> grads =
          grad({&loss, 1}, inputs, {}, {.retain_graph = true, .create_graph = create_graph});
      EXPECT_EQ(grads[0].to_vector<float>(), all) << readers;
      EXPECT_EQ(grads[1].to_vector<float>(), all) << readers;
    }
    backward({&loss, 1}, {}, {.create_graph = true});
    EXPECT_EQ(residual.grad().to_vector<float>(), all) << readers;
    residual.clear_grad();
  }
}

// With create_graph, gradients are computed by other operations than without.
TEST(Backward, GradientsAreThoseWithoutAGraph) {
  const Tensor x = from_values({0.5F, -1.0F, 2.0F, 1.5F, 0.0F, -0.5F}, {2, 3});
  const Tensor factors = from_values({1.0F, 2.0F, -3.0F, 0.5F, -1.0F, 4.0F}, {2, 3});
  const std::vector<std::function<Tensor(const Tensor&)>> losses{
      [&](const Tensor& in) { return mse_loss(in, factors); },
      [&](const Tensor& in) { return mse_loss(in, factors, Reduction::kSum); },
      [&](const Tensor& in) { return sum(softmax(in, 1) * factors); },
      [&](const Tensor& in) { return sum(log_softmax(in, 1) * factors); }};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const Tensor leaf = x.detach().set_requires_grad(true);
    const Tensor loss = losses[i](leaf);
    const Tensor plain = grad({&loss, 1}, {&leaf, 1}, {}, {.retain_graph = true})[0];
    const Tensor with_graph = grad({&loss, 1}, {&leaf, 1}, {}, {.create_graph = true})[0];
    // A few roundings of values up to 16.
    const float tolerance = 16 * 4 * std::numeric_limits<float>::epsilon();
    EXPECT_THAT(with_graph.to_vector<float>(),
                testing::Pointwise(testing::FloatNear(tolerance), plain.to_vector<float>()))
        << i;
  }
}

TEST(Backward, GradientsToStartFromFitTheirTensors) {
  const Tensor y = leaf({1, 2}, {2}) * 3;
  EXPECT_THAT(message_of<ArgumentError>([&] { y.backward(ones({3})); }),
              testing::HasSubstr("the gradient has shape [3], the tensor [2]"));
  EXPECT_THAT(message_of<ArgumentError>([&] { y.backward(ones({2}, DType::kI64)); }),
              testing::HasSubstr("the gradient is i64, but must be a float of 16 bits or more"));
  EXPECT_THAT(message_of<ArgumentError>([&] { y.backward(ones({2}, DType::kE5m2)); }),
              testing::HasSubstr("the gradient is e5m2, but must be"));
}

}  // namespace
}  // namespace mezzo

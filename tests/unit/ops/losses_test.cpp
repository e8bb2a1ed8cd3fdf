#include "mezzo/ops/losses.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/message_of.h"
#include "tests/unit/special_values.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;
using Longs = std::vector<std::int64_t>;

Tensor labels_of(const Longs& labels) {
  return from_values(labels, {static_cast<std::int64_t>(labels.size())});
}

TEST(CrossEntropy, OfEqualLogitsIsTheLogarithmOfTheClasses) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Tensor loss = cross_entropy(zeros({3, 10}, dtype), labels_of({0, 5, 9}));
    EXPECT_EQ(loss.dtype(), DType::kF32);
    EXPECT_FLOAT_EQ(static_cast<float>(loss.item()), std::log(10.0F));
  }
}

TEST(CrossEntropy, LargeLogitsKeepTheirDifferences) {
  // log-probabilities of 0 and -16 next to logits of 30000: a saved log-sum-exp would round them.
  const Tensor x = from_values({30016.0F, 30000.0F}, {1, 2}).set_requires_grad(true);
  const Tensor loss = cross_entropy(x, labels_of({1}));
  EXPECT_FLOAT_EQ(static_cast<float>(loss.item()), 16.0F + std::log1p(std::exp(-16.0F)));
  loss.backward();
  const float p = 1 / (1 + std::exp(-16.0F));
  EXPECT_THAT(x.grad().to_vector<float>(),
              testing::ElementsAre(testing::FloatEq(p), testing::FloatEq(-p)));
}

TEST(CrossEntropy, ImpossibleLabelsCostInfinitelyMuch) {
  const Tensor x = from_values({0.0F, -kInf}, {1, 2});
  EXPECT_EQ(cross_entropy(x, labels_of({1})).item(), kInf);
  EXPECT_EQ(cross_entropy(x, labels_of({0})).item(), 0);
  const Tensor certain = from_values({1.0F, 0.0F}, {1, 2});
  EXPECT_EQ(cross_entropy(x, certain).item(), 0);
  const Tensor wide = x.astype(DType::kF64);
  EXPECT_EQ(cross_entropy(wide, labels_of({1})).item(), kInf);
  EXPECT_EQ(cross_entropy(wide, labels_of({0})).item(), 0);
  EXPECT_EQ(cross_entropy(wide, certain.astype(DType::kF64)).item(), 0);
}

TEST(CrossEntropy, AllSmoothingAsksNothingOfTheLabel) {
  const Tensor logits = from_values({-INFINITY, 0.0F, 1.0F}, {1, 3});
  for (const std::int64_t label : {0, 1}) {
    const Tensor labels = from_values<std::int64_t>({label}, {1});
    EXPECT_EQ(cross_entropy(logits, labels, {.label_smoothing = 1}).item(), INFINITY);
  }
}

TEST(CrossEntropy, NumbersAndTheirOneHotRowsAgree) {
  Generator generator(6);
  for (const double smoothing : {0.0, 0.1}) {
    for (const Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone}) {
      const CrossEntropyOptions options{smoothing, reduction};
      const Tensor x = randn({5, 37}, generator).set_requires_grad(true);
      const Tensor labels = labels_of({0, 36, 7, 7, 20});
      const Tensor by_number = cross_entropy(x, labels, options);
      const Tensor by_row = cross_entropy(x, one_hot(labels, 37), options);
      const Floats a = by_number.to_vector<float>();
      const Floats b = by_row.to_vector<float>();
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 16 * 0x1p-24 * b[i]);
      const Tensor total = sum(by_number);
      const Tensor other = sum(by_row);
      const Floats ga = grad({&total, 1}, {&x, 1})[0].to_vector<float>();
      const Floats gb = grad({&other, 1}, {&x, 1})[0].to_vector<float>();
      for (std::size_t i = 0; i < ga.size(); ++i) EXPECT_NEAR(ga[i], gb[i], 4 * 0x1p-24);
    }
  }
}

TEST(CrossEntropy, SmoothingMixesInTheMeanOfAllClasses) {
  Generator generator(8);
  const Tensor x = randn({4, 9}, generator);
  const Tensor labels = labels_of({1, 2, 3, 4});
  const double plain = cross_entropy(x, labels).item();
  const double uniform = -mean(log_softmax(x)).item();
  EXPECT_NEAR(cross_entropy(x, labels, {0.3}).item(), 0.7 * plain + 0.3 * uniform, 1e-6);
}

TEST(CrossEntropy, GradientOf16BitLogitsIsTheRoundedOne) {
  Generator generator(7);
  const Tensor wide = randn({6, 50}, generator).astype(DType::kBf16).astype(DType::kF32);
  const Tensor labels = labels_of({0, 1, 2, 3, 4, 49});
  const Tensor x = wide.detach().set_requires_grad(true);
  const Tensor low = wide.astype(DType::kBf16).detach().set_requires_grad(true);
  cross_entropy(x, labels).backward();
  cross_entropy(low, labels).backward();
  EXPECT_EQ(low.grad().dtype(), DType::kBf16);
  EXPECT_EQ(low.grad().to_vector<float>(), x.grad().astype(DType::kBf16).to_vector<float>());
}

TEST(CrossEntropy, NamesTheLabelThatIsWrong) {
  const Tensor x = zeros({3, 10});
  EXPECT_EQ(message_of([&] {
              cross_entropy(x, labels_of({1, 10, 2}));
            }),
            "[cross_entropy] label 1 is 10, out of range for 10 classes. Labels count from 0");
  EXPECT_EQ(message_of([&] {
              cross_entropy(x, labels_of({1, 2, -1}));
            }),
            "[cross_entropy] label 2 is -1, out of range for 10 classes. Labels count from 0");
}

TEST(CrossEntropy, StridedLogitsAndLabels) {
  const Tensor block = from_values({1.0F, 9.0F, 2.0F, 9.0F, 3.0F, 9.0F, 4.0F, 9.0F}, {2, 4});
  const Tensor x = alias(block, {2, 2}, {4, 2}, 0);
  const Tensor numbers = from_values<std::int64_t>({0, 7, 1, 7}, {4});
  const Tensor labels = alias(numbers, {2}, {2}, 0);
  const Tensor dense = from_values({1.0F, 2.0F, 3.0F, 4.0F}, {2, 2});
  EXPECT_EQ(cross_entropy(x, labels).item(), cross_entropy(dense, labels_of({0, 1})).item());
}

TEST(MseLoss, SquaresDoNotLeaveTheRangeOfF16) {
  const Tensor a = full({4}, 1000, DType::kF16);
  const Tensor b = zeros({4}, DType::kF16);
  EXPECT_EQ(mse_loss(a, b).item(), 1e6);
  EXPECT_EQ(mse_loss(a, b, Reduction::kSum).item(), 4e6);
}

TEST(MseLoss, LongSumsStayExact) {
  const std::int64_t n = 1 << 22;
  EXPECT_EQ(mse_loss(ones({n}), zeros({n}), Reduction::kSum).item(), n);
  const Tensor x = full({2, 3}, 3).set_requires_grad(true);
  mse_loss(x, ones({2, 3})).backward();
  EXPECT_THAT(x.grad().to_vector<float>(), testing::Each(testing::FloatEq(4.0F / 6)));
}

}  // namespace
}  // namespace mezzo

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
#include "mezzo/ops/shape_ops.h"
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
  // Log-probabilities of 0 and -16 next to logits of 30000: a saved log-sum-exp would round them.
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

TEST(CrossEntropy, LabelsMayBeI32) {
  const Tensor logits = randn({4, 3});
  const Tensor labels = from_values(std::vector<std::int64_t>{2, 0, 1, 2}, {4});
  const Tensor narrow = labels.astype(DType::kI32);
  const CrossEntropyOptions ignores{.ignore_index = 1, .class_weights = rand({3})};
  for (const CrossEntropyOptions& options : {CrossEntropyOptions{}, ignores}) {
    EXPECT_EQ(cross_entropy(logits, narrow, options).item(),
              cross_entropy(logits, labels, options).item());
  }
  const Tensor pixels = randn({1, 3, 2, 2});
  EXPECT_EQ(cross_entropy(pixels, reshape(narrow, {1, 2, 2})).item(),
            cross_entropy(pixels, reshape(labels, {1, 2, 2})).item());
  EXPECT_EQ(one_hot(narrow, 3).to_vector<float>(), one_hot(labels, 3).to_vector<float>());
  EXPECT_EQ(embedding(logits, narrow).to_vector<float>(),
            embedding(logits, labels).to_vector<float>());
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
            "[cross_entropy] label 1 is 10, out of range for 10 classes. Labels count from 0; "
            "those that do not count are ignore_index");
  EXPECT_EQ(message_of([&] {
              cross_entropy(x, labels_of({1, 2, -1}));
            }),
            "[cross_entropy] label 2 is -1, out of range for 10 classes. Labels count from 0; "
            "those that do not count are ignore_index");
}

TEST(CrossEntropy, OfPixelsIsThatOfTheirRows) {
  const Tensor logits = randn({2, 3, 4, 5}).set_requires_grad(true);
  const Tensor labels = argmax(randn({2, 3, 4, 5}), 1);
  const Tensor copy = logits.detach().astype(DType::kF64).astype(DType::kF32);
  const Tensor rows = reshape(permute(copy, {0, 2, 3, 1}), {40, 3}).set_requires_grad(true);
  const Tensor loss = cross_entropy(logits, labels);
  const Tensor expected = cross_entropy(rows, reshape(labels, {40}));
  EXPECT_EQ(loss.item(), expected.item());
  loss.backward();
  expected.backward();
  EXPECT_EQ(permute(logits.grad(), {0, 2, 3, 1}).to_vector<float>(),
            rows.grad().to_vector<float>());
  const Tensor each = cross_entropy(logits, labels, {.reduction = Reduction::kNone});
  EXPECT_EQ(each.shape(), (Shape{2, 4, 5}));
  const Tensor shares = softmax(copy, 1);
  const Tensor of_shares = cross_entropy(logits, shares);
  EXPECT_EQ(of_shares.item(),
            cross_entropy(rows, reshape(permute(shares, {0, 2, 3, 1}), {40, 3})).item());
  EXPECT_EQ(message_of([&] { cross_entropy(logits, slice(labels, 1, 0, 3)); }),
            "[cross_entropy] the logits have shape [2, 3, 4, 5], the labels [2, 3, 5]. Labels are "
            "class numbers, [2, 4, 5], or probabilities with the logits' shape");
  EXPECT_EQ(message_of<ArgumentError>([] {
              cross_entropy(zeros({2, 3, 4, 5}), zeros({2, 4, 5}));
            }),
            "[cross_entropy] class numbers are i64, these labels are f32[2, 4, 5]. Use astype()");
}

TEST(CrossEntropy, IgnoredExamplesDoNotCount) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF64}) {
    const Tensor values = randn({5, 4}).astype(dtype);
    const Tensor all = (values * 1.0).detach().set_requires_grad(true);
    const Tensor kept = cat({slice(values, 0, 0, 1), slice(values, 0, 2, 4)});
    const Tensor some = kept.detach().set_requires_grad(true);
    const Tensor labels = labels_of({3, -100, 0, 2, -100});
    for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
      const CrossEntropyOptions options{.label_smoothing = 0.1, .reduction = reduction};
      CrossEntropyOptions ignoring = options;
      ignoring.ignore_index = -100;
      const Tensor loss = cross_entropy(all, labels, ignoring);
      const Tensor expected = cross_entropy(some, labels_of({3, 0, 2}), options);
      EXPECT_EQ(loss.dtype(), expected.dtype());
      EXPECT_NEAR(loss.item(), expected.item(), 1e-6 * expected.item());
      loss.backward();
      expected.backward();
      const auto grads = all.grad().to_vector<double>();
      const auto wanted = some.grad().to_vector<double>();
      for (std::size_t j = 0; j < 4; ++j) {
        EXPECT_EQ(grads[4 + j], 0);
        EXPECT_EQ(grads[16 + j], 0);
        EXPECT_NEAR(grads[j], wanted[j], 1e-2 * std::abs(wanted[j]) + 1e-7);
        EXPECT_NEAR(grads[12 + j], wanted[8 + j], 1e-2 * std::abs(wanted[8 + j]) + 1e-7);
      }
      all.clear_grad();
      some.clear_grad();
    }
  }
}

TEST(CrossEntropy, IgnoredExamplesHaveNoGradientWhereNothingCounts) {
  const Tensor labels = labels_of({-1, -1});
  for (const Tensor& weights : {Tensor(), ones({2})}) {
    const CrossEntropyOptions options{.ignore_index = -1, .class_weights = weights};
    const Tensor x = randn({2, 2}).set_requires_grad(true);
    const Tensor loss = cross_entropy(x, labels, options);
    EXPECT_TRUE(std::isnan(loss.item()));
    loss.backward();
    EXPECT_THAT(x.grad().to_vector<float>(), testing::Each(0));
    const Tensor broken = from_values({0.0F, 0.0F, kNan, kInf}, {2, 2});
    EXPECT_FLOAT_EQ(static_cast<float>(cross_entropy(broken, labels_of({0, -1}), options).item()),
                    std::log(2.0F));
  }
}

TEST(CrossEntropy, IgnoresOnlyThatNumber) {
  const CrossEntropyOptions ignoring{.ignore_index = 1};
  const Tensor x = from_values({0.0F, -kInf, 0.0F, -kInf}, {2, 2});
  EXPECT_EQ(cross_entropy(x, labels_of({0, 1}), ignoring).item(), 0);
  EXPECT_TRUE(std::isnan(cross_entropy(x, labels_of({1, 1}), ignoring).item()));
  EXPECT_THAT(message_of([&] {
                cross_entropy(x, labels_of({0, -100}), ignoring);
              }),
              testing::HasSubstr("label 1 is -100, out of range"));
  EXPECT_THAT(message_of([&] {
                cross_entropy(x, labels_of({1, 1 + (1LL << 32)}), ignoring);
              }),
              testing::HasSubstr("label 1 is 4294967297, out of range"));
  EXPECT_EQ(message_of([&] {
              cross_entropy(zeros({2, 0}), from_values<std::int64_t>({1, 0}, {2}), ignoring);
            }),
            "[cross_entropy] there are no classes: the logits have shape [2, 0]. Give the last "
            "layer at least one output");
  EXPECT_THAT(message_of([&] { cross_entropy(x, x, ignoring); }),
              testing::HasSubstr("ignore_index is for class numbers"));
  EXPECT_THAT(message_of([&] {
                cross_entropy(x, reshape(labels_of({0, 1}), {2, 1}), ignoring);
              }),
              testing::HasSubstr("these have [2, 1]"));
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

// A class with probability 0 adds nothing, but a NaN probability must not count as 0.
TEST(CrossEntropy, NotANumberAmongProbabilitiesStays) {
  const Tensor logits = zeros({1, 19});
  for (const std::int64_t at : {0, 18}) {
    const Tensor targets = zeros({1, 19});
    targets.mutable_data<float>()[at] = NAN;
    EXPECT_TRUE(std::isnan(cross_entropy(logits, targets).item())) << at;
  }
}

}  // namespace
}  // namespace mezzo

// Tests class weights of cross-entropy, and pos_weight of its binary form, against values of
// PyTorch 1.13 in f64.
#include <cmath>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/binary_cross_entropy.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/message_of.h"
#include "tests/unit/special_values.h"

namespace mezzo {
namespace {

using Doubles = std::vector<double>;

// All values have few bits, so that every dtype represents them exactly.
Tensor some_logits() {
  return from_values({1.0, -0.5, 2.0, 0.25, 0.75, -1.5, -2.0, 0.5, 1.25, 3.0, 1.0, -0.25}, {4, 3});
}
Tensor some_probabilities() {
  return from_values({0.25, 0.25, 0.5, 1.0, 0.0, 0.0, 0.125, 0.625, 0.25, 0.5, 0.25, 0.25}, {4, 3});
}
Tensor some_weights() { return from_values({0.5, 2.0, 3.0}, {3}); }

enum class Labels : std::uint8_t { kNumbers, kIgnoring, kProbabilities };

Tensor labels_like(Labels kind) {
  if (kind == Labels::kProbabilities) return some_probabilities();
  const bool ignoring = kind == Labels::kIgnoring;
  return ignoring ? from_values<std::int64_t>({2, -100, 1, 0}, {4})
                  : from_values<std::int64_t>({2, 0, 1, 2}, {4});
}

struct Expected {
  Labels labels;
  double smoothing;
  double mean;
  double sum;
  Doubles losses;
  Doubles grad_of_mean;
  Doubles grad_of_losses;  // with the upstream gradients 1, 2, 3, 4

  CrossEntropyOptions options(Reduction reduction) const {
    CrossEntropyOptions options{
        .label_smoothing = smoothing, .reduction = reduction, .class_weights = some_weights()};
    if (labels == Labels::kIgnoring) options.ignore_index = -100;
    return options;
  }
};

std::vector<Expected> from_pytorch() {
  using enum Labels;
  return {
      {kNumbers,
       0,
       1.669492631716503,
       14.19068736959028,
       {1.114617095558049, 0.518810660716857, 2.325729672361101, 10.23152994095427},
       {0.08954688763589125, 0.01998061137898986, -0.1095274990148811, -0.03798256248404307,
        0.03436094547569257, 0.003621617008350497, 0.006037387950392441, -0.161743675402979,
        0.1557062874525866, 0.3006032905410238, 0.04068223146722724, -0.341285522008251},
       {0.7611485449050757, 0.1698351967214138, -0.9309837416264892, -0.6457035622287322,
        0.5841360730867737, 0.06156748914195845, 0.1539533927350072, -4.124463722775964,
        3.970510330040957, 10.22051187839481, 1.383195869885726, -11.60370774828054}},
      {kNumbers,
       0.125,
       1.644771461741243,
       13.98055742480056,
       {1.289600986746199, 0.8688308809558093, 2.259836654940673, 9.562288902157881},
       {0.08274293353921192, 0.009205410090550406, -0.09194834362976227, -0.02613361272382212,
        0.03601067239896265, -0.009877059675140513, 0.003523518100418989, -0.1429019827057666,
        0.1393784646053476, 0.2835396501920117, 0.02890070142449847, -0.3124403516165101},
       {0.7033149350833011, 0.07824598576967844, -0.7815609208529795, -0.4442714163049762,
        0.612181430782365, -0.1679100144773887, 0.08984971156068425, -3.644000558997048,
        3.554150847436364, 9.640348106528394, 0.9826238484329477, -10.62297195496134}},
      {kIgnoring,
       0,
       0.6401094105596717,
       3.520601758078195,
       {1.114617095558049, 0, 2.325729672361101, 0.08025499015904483},
       {0.1383906445281956, 0.0308791266766207, -0.1692697712048162, 0, 0, 0, 0.009330508650606499,
        -0.2499674983500584, 0.2406369896994519, -0.01348097061822114, 0.01047875659004338,
        0.003002214028177757},
       {0.7611485449050757, 0.1698351967214138, -0.9309837416264892, 0, 0, 0, 0.1539533927350072,
        -4.124463722775964, 3.970510330040957, -0.296581353600865, 0.2305326449809544,
        0.06604870861991065}},
      {kIgnoring,
       0.125,
       0.7689747203452604,
       4.229360961898932,
       {1.289600986746199, 0, 2.259836654940673, 0.6799233202120598},
       {0.1278754427424184, 0.01422654286721426, -0.1421019856096326, 0, 0, 0, 0.005445437064283892,
        -0.2208485187270938, 0.2154030816628099, 0.01990416038782636, -0.001179839698123978,
        -0.01872432068970238},
       {0.7033149350833011, 0.07824598576967844, -0.7815609208529795, 0, 0, 0, 0.08984971156068425,
        -3.644000558997048, 3.554150847436364, 0.4378915285321799, -0.02595647335872753,
        -0.4119350551734525}},
      {kProbabilities,
       0,
       2.088438699625832,
       8.353754798503328,
       {2.164520442686951, 0.518810660716857, 1.992158724622385, 3.678264970477135},
       {0.1035367214936072, -0.09492501724724964, -0.008611704246357467, -0.08071294527859152,
        0.07301700913584672, 0.007695936142744807, -0.002394630311835315, -0.1513211011760594,
        0.1537157314878947, 0.2568909961998378, -0.08177512906607105, -0.1751158671337668},
       {0.4141468859744286, -0.3797000689889986, -0.03444681698542987, -0.6457035622287322,
        0.5841360730867737, 0.06156748914195845, -0.02873556374202379, -1.815853214112713,
        1.844588777854737, 4.110255939197405, -1.308402065057137, -2.801853874140268}},
      {kProbabilities,
       0.125,
       2.218310356274871,
       8.873241425099483,
       {2.208266415483989, 0.8688308809558093, 1.967962075669297, 3.828182052990388},
       {0.09992212087974627, -0.1006493429317331, 0.0007272220519869524, -0.05553392703812202,
        0.07652267884779562, -0.02098875180967359, -0.005833593779726491, -0.1353305303263919,
        0.1411641241061184, 0.2683671349831667, -0.08578277154012859, -0.1825843634430381},
       {0.3996884835189851, -0.4025973717269324, 0.00290888820794781, -0.4442714163049762,
        0.612181430782365, -0.1679100144773887, -0.0700031253567179, -1.623966363916703,
        1.693969489273421, 4.293874159730667, -1.372524344642057, -2.921349815088609}},
  };
}

// The error bound of values up to 16 that are sums of such terms.
double loss_bound(DType dtype) { return 16 * (dtype == DType::kF64 ? 0x1p-50 : 0x1p-23); }

void expect_near(const Tensor& got, const Doubles& expected, double relative, double absolute) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], relative * std::abs(expected[i]) + absolute) << i;
  }
}

double rounding_of(DType dtype) {
  return dtype == DType::kBf16 ? 0x1p-8 : dtype == DType::kF16 ? 0x1p-11 : 0;
}

TEST(ClassWeights, GiveTheNumbersOfPyTorch) {
  for (const Expected& expected : from_pytorch()) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64}) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " " << static_cast<int>(expected.labels)
                                      << " smoothing " << expected.smoothing);
      const DType loss_dtype = dtype == DType::kF64 ? dtype : DType::kF32;
      const Tensor labels = labels_like(expected.labels);
      const double bound = loss_bound(dtype);
      Tensor logits = some_logits().astype(dtype);
      logits.set_requires_grad(true);
      const Tensor mean = cross_entropy(logits, labels, expected.options(Reduction::kMean));
      EXPECT_EQ(mean.dtype(), loss_dtype);
      EXPECT_NEAR(mean.item(), expected.mean, bound);
      mean.backward();
      EXPECT_EQ(logits.grad().dtype(), dtype);
      // Rounded to 16 bits once.
      expect_near(logits.grad(), expected.grad_of_mean, rounding_of(dtype), bound);
      const Tensor sum = cross_entropy(logits, labels, expected.options(Reduction::kSum));
      EXPECT_NEAR(sum.item(), expected.sum, bound);
      const Tensor losses = cross_entropy(logits, labels, expected.options(Reduction::kNone));
      expect_near(losses, expected.losses, 0, bound);
      logits.clear_grad();
      losses.backward(from_values({1.0, 2.0, 3.0, 4.0}, {4}).astype(loss_dtype));
      expect_near(logits.grad(), expected.grad_of_losses, rounding_of(dtype), bound);
    }
  }
}

TEST(ClassWeights, OfPixels) {
  const Tensor logits = from_values(
      {1.0, -0.5, 2.0, 0.25, 0.75, -1.5, -2.0, 0.5, 1.25, 3.0, 1.0, -0.25}, {1, 3, 2, 2});
  const Tensor labels = from_values<std::int64_t>({0, 1, -100, 2}, {1, 2, 2});
  CrossEntropyOptions options{
      .label_smoothing = 0.125, .ignore_index = -100, .class_weights = some_weights()};
  const double bound = loss_bound(DType::kF64);
  EXPECT_NEAR(cross_entropy(logits, labels, options).item(), 2.4586459974224892, bound);
  options.reduction = Reduction::kNone;
  const Tensor each = cross_entropy(logits, labels, options);
  EXPECT_EQ(each.shape(), (Shape{1, 2, 2}));
  expect_near(each, {0.7358087229371187, 8.403025534335562, 0, 4.383718728551008}, 0, bound);
  const Tensor shares = from_values(
      {0.25, 0.5, 1.0, 0.125, 0.25, 0.25, 0.0, 0.625, 0.5, 0.25, 0.0, 0.25}, {1, 3, 2, 2});
  options.ignore_index.reset();
  options.reduction = Reduction::kMean;
  EXPECT_NEAR(cross_entropy(logits, shares, options).item(), 2.0711345026534937, bound);
}

// Checks the gradient of every element of `x` with central differences in f64.
void expect_differences(const Tensor& x, const std::function<Tensor(const Tensor&)>& loss) {
  constexpr double kStep = 0x1p-16;
  Tensor leaf = contiguous(x.detach() * 1.0);
  leaf.set_requires_grad(true);
  loss(leaf).backward();
  const Doubles grads = leaf.grad().to_vector<double>();
  Doubles values = x.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = [&](double shift) {
      Doubles moved = values;
      moved[i] += shift;
      return loss(from_values(moved, x.shape())).item();
    };
    // The truncation error is of the order of the squared step, the rounding error 2^-52 / 2^-16.
    EXPECT_NEAR(grads[i], (at(kStep) - at(-kStep)) / (2 * kStep), 64 * kStep * kStep) << i;
  }
}

TEST(ClassWeights, GradientsAreThoseOfDifferences) {
  for (const Expected& expected : from_pytorch()) {
    for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
      const CrossEntropyOptions options = expected.options(reduction);
      const Tensor labels = labels_like(expected.labels);
      expect_differences(some_logits(),
                         [&](const Tensor& x) { return cross_entropy(x, labels, options); });
      expect_differences(some_weights(), [&](const Tensor& weights) {
        CrossEntropyOptions others = options;
        others.class_weights = weights;
        return cross_entropy(some_logits(), labels, others);
      });
      if (expected.labels != Labels::kProbabilities) continue;
      expect_differences(labels,
                         [&](const Tensor& p) { return cross_entropy(some_logits(), p, options); });
    }
  }
}

TEST(ClassWeights, SecondDerivativesAreThoseOfDifferences) {
  for (const Expected& expected : from_pytorch()) {
    const CrossEntropyOptions options = expected.options(Reduction::kMean);
    const Tensor labels = labels_like(expected.labels);
    expect_differences(some_logits(), [&](const Tensor& x) {
      Tensor logits = x.requires_grad() ? x : x.detach();
      logits.set_requires_grad(true);
      const Tensor loss = cross_entropy(logits, labels, options);
      const Tensor slope = grad({&loss, 1}, {&logits, 1}, {}, {.create_graph = true})[0];
      return sum(slope * some_logits());
    });
  }
}

TEST(ClassWeights, OfOneChangeNothing) {
  Generator generator(3);
  const Tensor logits = randn({5, 7}, generator);
  const Tensor labels = from_values<std::int64_t>({0, 6, 3, 3, 1}, {5});
  for (const double smoothing : {0.0, 0.1}) {
    const CrossEntropyOptions plain{.label_smoothing = smoothing};
    CrossEntropyOptions weighted = plain;
    weighted.class_weights = ones({7});
    EXPECT_NEAR(cross_entropy(logits, labels, weighted).item(),
                cross_entropy(logits, labels, plain).item(), loss_bound(DType::kF32));
  }
}

TEST(ClassWeights, AClassThatWeighsNothingIsLeftOut) {
  const Tensor logits = from_values({0.0F, 1.0F, -kInf, 2.0F, 0.0F, -kInf}, {2, 3});
  CrossEntropyOptions options{.class_weights = from_values({1.0F, 1.0F, 0.0F}, {3})};
  const Tensor labels = from_values<std::int64_t>({1, 0}, {2});
  EXPECT_TRUE(std::isfinite(cross_entropy(logits, labels, options).item()));
  options.label_smoothing = 0.1;
  EXPECT_TRUE(std::isfinite(cross_entropy(logits, labels, options).item()));
}

TEST(ClassWeights, AMeanOfNothingIsNoNumber) {
  const CrossEntropyOptions options{.ignore_index = 1, .class_weights = ones({2})};
  const Tensor labels = from_values<std::int64_t>({1, 1}, {2});
  EXPECT_TRUE(std::isnan(cross_entropy(ones({2, 2}), labels, options).item()));
  CrossEntropyOptions zero{.class_weights = zeros({2})};
  EXPECT_TRUE(std::isnan(cross_entropy(ones({2, 2}), labels, zero).item()));
  zero.reduction = Reduction::kSum;
  EXPECT_EQ(cross_entropy(ones({2, 2}), labels, zero).item(), 0);
  EXPECT_EQ(cross_entropy(ones({0, 2}), zeros({0}, DType::kI64), zero).item(), 0);
}

TEST(ClassWeights, LossesAreF32InEveryRegion) {
  const Tensor labels = labels_like(Labels::kNumbers);
  const CrossEntropyOptions options{.label_smoothing = 0.125, .class_weights = some_weights()};
  const Tensor logits = some_logits().astype(DType::kBf16);
  const Tensor expected = cross_entropy(logits, labels, options);
  const Tensor x = some_logits().astype(DType::kF32);
  const Tensor answers = some_probabilities().astype(DType::kF32);
  const Tensor pos_weight = some_weights().astype(DType::kF32);
  const auto binary = [&] {
    return binary_cross_entropy_with_logits(x, answers, Reduction::kMean, pos_weight);
  };
  const Tensor expected_binary = binary();
  const amp::Autocast region({.level = amp::Level::kO3, .lower = DType::kF16});
  const Tensor loss = cross_entropy(logits, labels, options);
  EXPECT_EQ(loss.dtype(), DType::kF32);
  EXPECT_EQ(loss.item(), expected.item());
  EXPECT_EQ(binary().dtype(), DType::kF32);
  EXPECT_EQ(binary().item(), expected_binary.item());
}

TEST(ClassWeights, RefusesWhatDoesNotFit) {
  const Tensor logits = zeros({4, 3});
  const Tensor labels = labels_like(Labels::kNumbers);
  const auto error_of = [&](const Tensor& of, CrossEntropyOptions options) {
    return message_of<ArgumentError>([&] { cross_entropy(logits, of, options); });
  };
  EXPECT_EQ(error_of(labels, {.class_weights = ones({4})}),
            "[cross_entropy] the class weights are f32[4], and there are 3 classes. Give each one "
            "a floating-point weight");
  EXPECT_THAT(error_of(labels, {.class_weights = zeros({3}, DType::kI64)}),
              testing::HasSubstr("the class weights are i64[3]"));
  const CrossEntropyOptions weighted{.class_weights = ones({3})};
  const CrossEntropyOptions smoothed{.label_smoothing = 0.1, .class_weights = ones({3})};
  const Tensor no_class = from_values<std::int64_t>({0, 3, 0, 0}, {4});
  EXPECT_THAT(error_of(no_class, weighted),
              testing::StartsWith("[cross_entropy] label 1 is 3, out of range for 3 classes"));
  EXPECT_THAT(error_of(no_class, smoothed), testing::HasSubstr("1 is 3, out of range for 3"));
  for (const CrossEntropyOptions& options : {weighted, smoothed}) {
    // These are refused as they are without weights.
    for (const Tensor& wrong :
         {zeros({4}), zeros({4, 1}, DType::kI64), zeros({3}, DType::kI64),
          zeros({4, 3}, DType::kI64), zeros({4}, DType::kBool), zeros({4, 2})}) {
      const std::string error = error_of(wrong, {});
      EXPECT_THAT(error, testing::StartsWith("[cross_entropy] "));
      EXPECT_EQ(error_of(wrong, options), error);
    }
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  cross_entropy(zeros({0, 3}), zeros({0}, DType::kI64), options);
                }),
                testing::HasSubstr("the batch is empty"));
  }
  EXPECT_THAT(error_of(labels, {.label_smoothing = 1.5, .class_weights = ones({3})}),
              testing::HasSubstr("label_smoothing must be in [0, 1]: 1.5"));
}

TEST(PosWeight, GivesTheNumbersOfPyTorch) {
  const Tensor targets = from_values({1.0, 0.0, 0.25, 0.0, 1.0, 0.5}, {2, 3});
  const Tensor weight = from_values({2.0, 0.5, 4.0}, {3});
  const Doubles losses = {0.6265233750364457, 0.1269280110429727,  1.204634722315187,
                          0.5759394198788437, 0.02429367578687098, 2.783154218795557};
  const Doubles grads = {-0.5378828427399902, 0.1192029220221175,   0.08930382960324557,
                         0.4378234991142019,  -0.02371293658878332, -1.327646446575012};
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF64}) {
    Tensor logits = from_values({1.0, -2.0, 0.5, -0.25, 3.0, -1.0}, {2, 3}).astype(dtype);
    logits.set_requires_grad(true);
    const auto loss = [&](Reduction reduction) {
      return binary_cross_entropy_with_logits(logits, targets.astype(dtype), reduction, weight);
    };
    const double bound = loss_bound(dtype);
    const Tensor total = loss(Reduction::kSum);
    EXPECT_EQ(total.dtype(), dtype == DType::kF64 ? dtype : DType::kF32);
    EXPECT_NEAR(total.item(), 5.341473422855876, bound);
    EXPECT_NEAR(loss(Reduction::kMean).item(), 0.8902455704759794, bound);
    expect_near(loss(Reduction::kNone), losses, 0, bound);
    total.backward();
    expect_near(logits.grad(), grads, 3 * rounding_of(dtype), bound);
  }
}

TEST(PosWeight, GradientsAreThoseOfDifferences) {
  const Tensor targets = from_values({1.0, 0.0, 0.25, 0.0, 1.0, 0.5}, {2, 3});
  const Tensor logits = from_values({1.0, -2.0, 0.5, -0.25, 3.0, -1.0}, {2, 3});
  const Tensor weight = from_values({2.0, 0.5, 4.0}, {3});
  const auto loss = [](const Tensor& x, const Tensor& t, const Tensor& w) {
    return binary_cross_entropy_with_logits(x, t, Reduction::kMean, w);
  };
  expect_differences(logits, [&](const Tensor& x) { return loss(x, targets, weight); });
  expect_differences(targets, [&](const Tensor& t) { return loss(logits, t, weight); });
  expect_differences(weight, [&](const Tensor& w) { return loss(logits, targets, w); });
}

// (1 - t) x + (1 + (w - 1) t) log(1 + exp(-x)) would give 0 for the first element.
TEST(PosWeight, SmallLossesStayWhole) {
  const Tensor logits = from_values({-30.0F, 30.0F, -100.0F}, {3});
  const Tensor targets = from_values({0.0F, 1.0F, 1.0F}, {3});
  const Tensor loss =
      binary_cross_entropy_with_logits(logits, targets, Reduction::kNone, full({}, 3));
  const double small = std::log1p(std::exp(-30.0));
  expect_near(loss, {small, 3 * small, 300}, 8 * 0x1p-24, 0);
}

TEST(PosWeight, RefusesWhatDoesNotFit) {
  const auto error_of = [](const Tensor& targets, const Tensor& weight) {
    return message_of<ArgumentError>([&] {
      binary_cross_entropy_with_logits(zeros({2, 3}), targets, Reduction::kMean, weight);
    });
  };
  EXPECT_EQ(error_of(zeros({2, 3}), ones({4, 2, 3})),
            "[binary_cross_entropy_with_logits] pos_weight is f32[4, 2, 3], and the logits are "
            "f32[2, 3]. Give floating-point weights of a shape that broadcasts to theirs");
  EXPECT_THAT(error_of(zeros({2, 3}), ones({2})),
              testing::StartsWith("[binary_cross_entropy_with_logits] "));
  EXPECT_THAT(error_of(zeros({2, 3}), ones({3}, DType::kI64)),
              testing::HasSubstr("pos_weight is i64[3]"));
  EXPECT_THAT(error_of(zeros({3}), ones({3})),
              testing::HasSubstr("the prediction has shape [2, 3], the target [3]"));
}

}  // namespace
}  // namespace mezzo

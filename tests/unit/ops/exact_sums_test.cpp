// Tests that convolutions are direct sums where that is asked for.
#include "mezzo/ops/exact_sums.h"

#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/cpu.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv1d.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/conv_transpose2d.h"
#include "mezzo/ops/dispatcher/call_listener.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::Doubles;
using test::parameter;
using test::random_tensor;
using testing::Contains;
using testing::Not;

constexpr const char* kWinogradKernel = "cpu_winograd";

// The operations of convolutions that ran, each with its kernel.
class SeeConvolutions final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double) override {
    if (std::string_view(work.op).starts_with("conv")) kernels.insert(work.kernel);
    if (std::string_view(work.op).starts_with("conv")) ops.insert(work.op);
  }
  std::set<std::string> ops;
  std::set<std::string> kernels;

 private:
  ListenToKernels guard_{*this};
};

// A convolution with a 3x3 kernel, for which Winograd's method is the fastest.
struct DenseConv {
  Tensor x, weight, grad;

  static DenseConv of(DType dtype) {
    return {parameter({4, 64, 16, 16}, 1, dtype), parameter({64, 64, 3, 3}, 2, dtype),
            random_tensor({4, 64, 16, 16}, 3, dtype)};
  }
  DenseConv in_f64() const {
    return {cast(x, DType::kF64).detach().set_requires_grad(true),
            cast(weight, DType::kF64).detach().set_requires_grad(true), cast(grad, DType::kF64)};
  }

  Tensor forward() const { return conv2d(x, weight, Tensor(), {.padding = 1}); }
  // The result and its gradients by x and by the weight.
  std::vector<Doubles> results_of(const Tensor& y) const {
    const Tensor inputs[] = {x, weight};
    std::vector<Doubles> all{y.to_vector<double>()};
    for (const Tensor& gradient : mezzo::grad({&y, 1}, inputs, {&grad, 1})) {
      all.push_back(gradient.to_vector<double>());
    }
    return all;
  }
  std::vector<Doubles> results() const { return results_of(forward()); }
};

// Whether Winograd's method computes such layers on this CPU.
bool is_by_winograd(const DenseConv& layer) {
  const SeeConvolutions see;
  layer.results();
  return see.kernels.contains(kWinogradKernel);
}

TEST(ExactSums, AreThoseOfTheOtherKernelsInEveryPass) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    const DenseConv layer = DenseConv::of(dtype);
    disable_kernels({kWinogradKernel});
    const std::vector<Doubles> direct = layer.results();
    disable_kernels({});
    const bool takes_winograd = is_by_winograd(layer);
    const std::vector<Doubles> fastest = layer.results();
    const ExactSums exact;
    const SeeConvolutions see;
    EXPECT_EQ(layer.results(), direct) << name_of(dtype);
    EXPECT_EQ(see.ops.size(), 3U);
    EXPECT_THAT(see.kernels, Not(Contains(kWinogradKernel)));
    for (std::size_t i = 0; i < direct.size(); ++i) {
      EXPECT_EQ(fastest[i] == direct[i], !takes_winograd) << name_of(dtype) << ", " << i;
    }
  }
}

// The gradients are computed after the scope, and those of the others within one.
TEST(ExactSums, HoldForTheGradientsOfTheirCallsAndNoOthers) {
  const DenseConv layer = DenseConv::of(DType::kF32);
  const std::vector<Doubles> fastest = layer.results();
  const Tensor plain = layer.forward();
  Tensor y;
  std::vector<Doubles> direct;
  {
    const ExactSums exact;
    direct = layer.results();
    y = layer.forward();
    EXPECT_EQ(layer.results_of(plain), fastest);
  }
  EXPECT_EQ(layer.results_of(y), direct);
}

TEST(ExactSums, HoldForGradientsOfGradients) {
  const DenseConv layer = DenseConv::of(DType::kF32);
  Tensor by_x;
  {
    const ExactSums exact;
    const Tensor y = layer.forward();
    const Tensor grad = parameter({4, 64, 16, 16}, 3);
    by_x = mezzo::grad({&y, 1}, {&layer.x, 1}, {&grad, 1}, {.create_graph = true})[0];
  }
  const SeeConvolutions see;
  const Tensor seed = random_tensor(by_x.shape(), 5);
  mezzo::grad({&by_x, 1}, {&layer.weight, 1}, {&seed, 1});
  EXPECT_FALSE(see.kernels.empty());
  EXPECT_THAT(see.kernels, Not(Contains(kWinogradKernel)));
}

TEST(ExactSums, HoldForTransposedConvolutions) {
  const Tensor x = random_tensor({4, 64, 16, 16}, 1);
  const Tensor weight = random_tensor({64, 64, 3, 3}, 2);
  const auto result = [&] {
    return conv_transpose2d(x, weight, Tensor(), {.padding = 1}).to_vector<float>();
  };
  disable_kernels({kWinogradKernel});
  const std::vector<float> direct = result();
  disable_kernels({});
  const std::vector<float> fastest = result();
  const ExactSums exact;
  EXPECT_EQ(result(), direct);
  EXPECT_EQ(fastest == direct, !has_vectors());
}

// The attributes of the convolutions that are called, as text.
class SeeAttributes final : public CallListener {
 public:
  void on_finished(const FinishedCall& call) override {
    if (std::string_view(call.op.name).starts_with("conv")) texts.push_back(call.attrs.to_text());
  }
  std::vector<std::string> texts;

 private:
  ListenToCalls guard_{*this};
};

// The call says so, and its gradients, whichever function makes it.
TEST(ExactSums, AreAnAttributeOfEveryConvolution) {
  for (const bool exact : {false, true}) {
    const SeeAttributes see;
    Tensor results;
    {
      const ExactSums scope(exact);
      const Tensor row = parameter({2, 4, 9}, 1);
      const Tensor image = parameter({2, 4, 9, 9}, 1);
      results = sum(conv1d(row, parameter({4, 4, 3}, 2))) +
                sum(conv2d(image, parameter({4, 4, 3, 3}, 2))) +
                sum(conv_transpose2d(image, parameter({4, 4, 3, 3}, 2)));
    }
    results.backward();
    EXPECT_EQ(see.texts.size(), 9U);
    for (const std::string& text : see.texts) {
      EXPECT_EQ(text.find("exact=true") != std::string::npos, exact) << text;
    }
  }
}

// Small integers, whose sums of products are exact in f32.
Tensor integers(const Shape& shape, std::uint64_t seed) {
  return cast(cast(random_tensor(shape, seed) * 4, DType::kI32), DType::kF32).detach();
}

TEST(ExactSums, OfSmallIntegersAreExactAndWinogradsAreNot) {
  const DenseConv layer{integers({4, 64, 16, 16}, 1).set_requires_grad(true),
                        integers({64, 64, 3, 3}, 2).set_requires_grad(true),
                        integers({4, 64, 16, 16}, 3)};
  const std::vector<Doubles> fastest = layer.results();
  const ExactSums exact;
  const std::vector<Doubles> direct = layer.results();
  const std::vector<Doubles> wanted = layer.in_f64().results();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(direct[i], wanted[i]) << i;
    EXPECT_EQ(fastest[i] == wanted[i], !has_vectors()) << i;
  }
}

// The relative norm of the errors in columns 10 and 11 of images of 16x16.
double error_beside(const Doubles& got, const Doubles& want) {
  double error = 0;
  double whole = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (i % 16 != 10 && i % 16 != 11) continue;
    error += (got[i] - want[i]) * (got[i] - want[i]);
    whole += want[i] * want[i];
  }
  return std::sqrt(error / whole);
}

// Winograd's method computes columns 8 to 11 together, so that large values in column 8 are rounded
// in the sums of columns 10 and 11, whose windows do not have them.
TEST(ExactSums, HaveNoErrorsOfPixelsOutsideOfTheirWindow) {
  if (!has_vectors()) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
  DenseConv layer = DenseConv::of(DType::kF32);
  const NoGrad no_grad;
  for (const Tensor& tensor : {layer.x, layer.grad}) {
    auto* values = tensor.mutable_data<float>();
    for (std::int64_t i = 8; i < tensor.numel(); i += 16) values[i] *= 1000;
  }
  const GradMode recording(true);
  const std::vector<Doubles> wanted = layer.in_f64().results();
  const std::vector<Doubles> fastest = layer.results();
  const ExactSums exact;
  const std::vector<Doubles> direct = layer.results();
  for (const std::size_t pass : {0, 1}) {
    const double of_winograd = error_beside(fastest[pass], wanted[pass]);
    EXPECT_LT(100 * error_beside(direct[pass], wanted[pass]), of_winograd) << pass;
  }
}

// In the mean of values alike, that is a factor of about two.
double norm_of_error(const Doubles& got, const Doubles& want) {
  double error = 0;
  double whole = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    whole += want[i] * want[i];
  }
  return std::sqrt(error / whole);
}

TEST(ExactSums, HaveSmallerErrorsThanWinogradsMethod) {
  if (!has_vectors()) GTEST_SKIP() << "this CPU has neither AVX2 nor NEON";
  const DenseConv layer = DenseConv::of(DType::kF32);
  const std::vector<Doubles> wanted = layer.in_f64().results();
  const std::vector<Doubles> fastest = layer.results();
  const ExactSums exact;
  const std::vector<Doubles> direct = layer.results();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_LT(norm_of_error(direct[i], wanted[i]), norm_of_error(fastest[i], wanted[i])) << i;
  }
}

TEST(ExactSums, NestAndBelongToTheirThread) {
  EXPECT_FALSE(are_sums_exact());
  {
    const ExactSums exact;
    EXPECT_TRUE(are_sums_exact());
    {
      const ExactSums fastest(false);
      EXPECT_FALSE(are_sums_exact());
    }
    EXPECT_TRUE(are_sums_exact());
    bool elsewhere = true;
    std::thread([&] { elsewhere = are_sums_exact(); }).join();
    EXPECT_FALSE(elsewhere);
  }
  EXPECT_FALSE(are_sums_exact());
}

TEST(ExactSums, AreTheDefaultOfAllThreadsIfThatIsSaid) {
  use_exact_sums(true);
  EXPECT_TRUE(are_sums_exact());
  bool elsewhere = false;
  std::thread([&] { elsewhere = are_sums_exact(); }).join();
  EXPECT_TRUE(elsewhere);
  {
    const ExactSums fastest(false);
    EXPECT_FALSE(are_sums_exact()) << "a scope counts more";
  }
  use_exact_sums(false);
  EXPECT_FALSE(are_sums_exact());
}

}  // namespace
}  // namespace mezzo

// Tests finite checks, unscaling and clipping.
#include "mezzo/optim/gradients.h"

#include <limits>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "tests/unit/optim/rules.h"
#include "tests/unit/special_values.h"

namespace mezzo::optim {
namespace {

std::vector<Tensor> several(DType dtype) {
  std::vector<Tensor> tensors;
  for (const std::int64_t size : {1, 17, 40000, 0, 3, 70001}) {
    tensors.push_back(full({size}, 2, dtype));
  }
  return tensors;
}

void set_element(const Tensor& tensor, std::int64_t i, float value) {
  fill(alias(tensor, {1}, {1}, i), value);
}

void expect_first_nonfinite(std::size_t index, DType dtype, float value) {
  const std::vector<Tensor> tensors = several(dtype);
  set_element(tensors[index], tensors[index].numel() - 1, value);
  set_element(tensors[5], 0, value);
  EXPECT_EQ(first_nonfinite(tensors), index) << name_of(dtype) << ' ' << value;
}

void expect_every_kind_found(DType dtype) {
  EXPECT_TRUE(all_finite(several(dtype)));
  for (const float value : {kInf, -kInf, std::nanf("")}) {
    for (const std::size_t index : {0, 1, 2, 5}) expect_first_nonfinite(index, dtype, value);
  }
}

TEST(AllFinite, FindsTheFirstTensorWithEveryKindOfValue) {
  for (const int threads : {1, 2}) {
    const test::Threads guard(threads);
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      expect_every_kind_found(dtype);
    }
  }
}

TEST(AllFinite, LargeFiniteValuesAreFinite) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    EXPECT_TRUE(all_finite(std::vector<Tensor>{full({1000}, max_of(dtype), dtype),
                                               full({1000}, -max_of(dtype), dtype)}));
  }
}

TEST(AllFinite, UndefinedTensorsArePassedOver) {
  EXPECT_TRUE(all_finite({}));
  EXPECT_EQ(first_nonfinite(std::vector<Tensor>{Tensor(), full({2}, kInf)}), 1U);
}

TEST(Unscale, MultipliesInPlaceAndChecks) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const std::vector<Tensor> tensors = several(dtype);
    const std::uint64_t version = tensors[0].version();
    EXPECT_EQ(unscale(tensors, 0.25F), std::nullopt);
    EXPECT_GT(tensors[0].version(), version);
    for (const Tensor& tensor : tensors) {
      for (const float value : tensor.to_vector<float>()) ASSERT_EQ(value, 0.5F);
    }
    set_element(tensors[1], 3, kInf);
    EXPECT_EQ(unscale(tensors, 0.5F), 1U);
    EXPECT_EQ(tensors[5].to_vector<float>()[70000], 0.25F) << "the rest is multiplied all the same";
  }
}

// Nobody else sees the gradients of a backward pass, so changing them makes no copies.
TEST(Unscale, GradientsOfABackwardPassStayWhereTheyAre) {
  const Tensor a = parameter({3, 4});
  const Tensor b = parameter({4});
  const Tensor x = gradient({5, 3}, 1);
  for (int pass = 0; pass < 2; ++pass) sum(relu(matmul(x, a) + b)).backward();
  const std::vector<const void*> before{a.grad().raw_data(), b.grad().raw_data()};
  unscale_grads(std::vector{a, b}, 0.5);
  clip_grad_norm(std::vector{a, b}, 1e-3);
  clip_grad_value(std::vector{a, b}, 1e-6);
  EXPECT_EQ((std::vector<const void*>{a.grad().raw_data(), b.grad().raw_data()}), before);
}

// Both parameters get the gradient of the sum, one tensor, but belong to different optimizers.
TEST(Unscale, AGradientThatAnotherParameterHasIsCopied) {
  const Tensor a = parameter({3});
  const Tensor b = parameter({3});
  sum((a + b) * 8).backward();
  for (const Tensor& param : {a, b}) unscale_grads(std::vector{param}, 0.125);
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

// Otherwise the optimizer would have to convert its layout.
TEST(Unscale, ACopyIsLaidOutAsTheGradientWas) {
  const Tensor a = parameter({2, 3, 4, 5});
  const Tensor shared = to_format(gradient({2, 3, 4, 5}, 1), Format::kChannelsLast);
  a.set_grad(shared);
  unscale_grads(std::vector{a}, 0.5);
  EXPECT_TRUE(a.grad().is_dense(Format::kChannelsLast));
  EXPECT_NE(a.grad().raw_data(), shared.raw_data());
}

TEST(Unscale, SeesOverflowOfTheProduct) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const auto largest = [&] { return std::vector<Tensor>{full({3}, max_of(dtype), dtype)}; };
    EXPECT_EQ(unscale(largest(), 1.0F), std::nullopt);
    EXPECT_EQ(unscale(largest(), 1.01F), 0U);
  }
}

TEST(Unscale, RefusesSharedMemoryAndOtherTypes) {
  const Tensor x = ones({3});
  EXPECT_THAT(message_of([&] {
                unscale(std::vector<Tensor>{x, ones({1}), x.detach()}, 2);
              }),
              testing::HasSubstr("tensors 0 and 2 share memory"));
  EXPECT_THAT(message_of([&] { unscale(std::vector<Tensor>{ones({3}, DType::kF64)}, 2); }),
              testing::HasSubstr("tensor 0 is f64"));
  EXPECT_THAT(message_of([&] { unscale(std::vector<Tensor>{expand(ones({1}), {4})}, 2); }),
              testing::HasSubstr("is not dense"));
}

TEST(UnscaleGrads, CopiesGradientsThatShareMemory) {
  const Tensor a = parameter({4});
  const Tensor b = parameter({4});
  const Tensor c = parameter({4});
  const Tensor none = parameter({4});
  const Tensor shared = full({4}, 8);
  a.set_grad(shared);
  b.set_grad(shared);
  c.set_grad(expand(full({1}, 8), {4}));
  const std::vector<Tensor> params{none, a, b, c};
  EXPECT_EQ(unscale_grads(params, 0.5), std::nullopt);
  for (const Tensor& param : {a, b, c}) {
    EXPECT_EQ(param.grad().to_vector<float>(), (std::vector<float>{4, 4, 4, 4}));
  }
  set_element(b.grad(), 0, kInf);
  EXPECT_EQ(first_nonfinite_grad(params), 2U);
}

TEST(ClipGradNorm, ScalesTheCommonNorm) {
  const Tensor a = parameter({1});
  const Tensor b = parameter({2});
  a.set_grad(from_values({3.0F}, {1}));
  b.set_grad(from_values({0.0F, 4.0F}, {2}));
  const std::vector<Tensor> params{a, parameter({2}), b};
  EXPECT_EQ(clip_grad_norm(params, 10), 5);
  EXPECT_EQ(a.grad().item(), 3);
  EXPECT_EQ(clip_grad_norm(params, 2.5), 5);
  EXPECT_EQ(a.grad().item(), 1.5);
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{0, 2}));
}

TEST(ClipGradNorm, SquaresBeyondTheRangeOfF32DoNotOverflow) {
  const Tensor a = parameter({10000});
  a.set_grad(full({10000}, 1e25));
  const double norm = static_cast<double>(1e25F) * 100;
  EXPECT_NEAR(clip_grad_norm(std::vector<Tensor>{a}, 1), norm, 1e-12 * norm);
  EXPECT_NEAR(a.grad().to_vector<double>()[9999], 0.01, 0.01 * 0x1p-22);
}

TEST(ClipGradNorm, IsTheSameForEveryThreadCount) {
  const Tensor a = parameter({123457});
  a.set_grad(gradient({123457}, 0));
  const test::Threads one(1);
  const double alone = clip_grad_norm(std::vector<Tensor>{a}, 1e9);
  const test::Threads two(2);
  EXPECT_EQ(clip_grad_norm(std::vector<Tensor>{a}, 1e9), alone);
  double sum = 0;
  for (const double g : a.grad().to_vector<double>()) sum += g * g;
  EXPECT_NEAR(alone, std::sqrt(sum), 1e-12 * alone);
}

TEST(ClipGradNorm, LeavesGradientsThatAreNotFinite) {
  const Tensor a = parameter({2});
  a.set_grad(from_values({1.0F, kInf}, {2}));
  EXPECT_EQ(clip_grad_norm(std::vector<Tensor>{a}, 1), kInf);
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{1, kInf}));
  EXPECT_THAT(message_of([&] { clip_grad_norm(std::vector<Tensor>{a}, 0); }),
              testing::HasSubstr("must be positive: 0"));
}

TEST(ClipGradNorm, RefusesAParameterThatIsGivenTwice) {
  const std::vector<Tensor> twice{parameter({3}), parameter({2}), parameter({2})};
  const std::vector<Tensor> params{twice[0], twice[1], twice[0]};
  EXPECT_EQ(message_of([&] { clip_grad_norm(params, 1); }),
            "[clip_grad_norm] parameter 0 (f32[3]) was given twice. Pass each once");
  EXPECT_THAT(message_of([&] { clip_grad_value(params, 1); }),
              testing::HasSubstr("was given twice"));
  EXPECT_NO_THROW(clip_grad_norm(twice, 1));
}

TEST(ClipGradNorm, NamesItselfWhereAGradientIsF64) {
  const Tensor wide = ones({2}, DType::kF64).set_requires_grad(true);
  wide.set_grad(ones({2}, DType::kF64));
  EXPECT_EQ(message_of([&] { clip_grad_norm(std::vector<Tensor>{wide}, 1); }),
            "[clip_grad_norm] tensor 0 is f64, only f32, bf16 and f16 are supported. Use astype()");
}

TEST(ClipGradValue, LimitsEveryElement) {
  const Tensor a = parameter({5});
  a.set_grad(from_values({-3.0F, -0.5F, 0.0F, 0.75F, kInf}, {5}));
  clip_grad_value(std::vector<Tensor>{a, parameter({1})}, 0.75);
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{-0.75F, -0.5F, 0, 0.75F, 0.75F}));
}

}  // namespace
}  // namespace mezzo::optim

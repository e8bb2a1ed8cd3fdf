// Tests sums of products in Einstein's notation, and one-dimensional convolution.
#include "mezzo/ops/einsum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/conv1d.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor numbered(const Shape& shape) { return reshape(arange(shape.numel()), shape); }

void expect_same(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
}

TEST(Einsum, ProductsOfMatrices) {
  const Tensor a = numbered({2, 3});
  const Tensor b = numbered({3, 4});
  expect_same(einsum("ij,jk->ik", {a, b}), matmul(a, b));
  expect_same(einsum("ij,jk", {a, b}), matmul(a, b));
  expect_same(einsum(" i j , j k -> k i ", {a, b}), transpose(matmul(a, b)));
  const Tensor c = numbered({5, 2, 3});
  const Tensor d = numbered({5, 3, 4});
  expect_same(einsum("bij,bjk->bik", {c, d}), matmul(c, d));
}

TEST(Einsum, AttentionScores) {
  const Tensor q = numbered({2, 3, 4, 5});  // [b, t, h, d]
  const Tensor k = numbered({2, 6, 4, 5});
  expect_same(einsum("bthd,bshd->bhts", {q, k}),
              matmul(permute(q, {0, 2, 1, 3}), permute(k, {0, 2, 3, 1})));
}

TEST(Einsum, OneOperand) {
  const Tensor x = numbered({3, 3});
  expect_same(einsum("ij->ji", {x}), transpose(x));
  expect_same(einsum("ji", {x}), transpose(x));  // implicit labels are in order
  expect_same(einsum("ij->", {x}), sum(x));
  expect_same(einsum("ij->j", {x}), sum(x, {0}));
  EXPECT_THAT(einsum("ii->i", {x}).to_vector<float>(), ElementsAre(0, 4, 8));
  EXPECT_EQ(einsum("ii", {x}).item(), 12);
  EXPECT_EQ(einsum("iii->", {numbered({2, 2, 2})}).item(), 7);
}

TEST(Einsum, WithoutSumsElementsAreMultiplied) {
  const Tensor a = numbered({3});
  const Tensor b = numbered({2});
  expect_same(einsum("i,j->ij", {a, b}), reshape(a, {3, 1}) * b);
  expect_same(einsum("i,i->i", {a, a}), a * a);
  EXPECT_EQ(einsum("i,i", {a, a}).item(), 5);
  EXPECT_EQ(einsum(",->", {full({}, 2), full({}, 3)}).item(), 6);
}

TEST(Einsum, LabelsThatNobodyElseNeedsAreSummed) {
  const Tensor a = numbered({2, 3});
  const Tensor b = numbered({2, 4});
  expect_same(einsum("ij,ik->i", {a, b}), sum(a, {1}) * sum(b, {1}));
}

TEST(Einsum, ThreeOperands) {
  const Tensor a = numbered({2, 3});
  const Tensor b = numbered({3, 4});
  const Tensor c = numbered({4, 2});
  expect_same(einsum("ij,jk,kl->il", {a, b, c}), matmul(matmul(a, b), c));
  expect_same(einsum("i,ij,j->", {numbered({2}), a, numbered({3})}),
              sum(reshape(numbered({2}), {2, 1}) * a * numbered({3})));
}

TEST(Einsum, HasGradients) {
  const Tensor a = numbered({2, 3}).set_requires_grad(true);
  const Tensor b = numbered({3, 2});
  const Tensor loss = einsum("ij,ji->", {a, b});
  expect_same(grad({&loss, 1}, {&a, 1})[0], transpose(b));
}

TEST(Einsum, RefusesWhatDoesNotFit) {
  const Tensor x = numbered({2, 3});
  const auto message = [&](std::string_view equation, std::initializer_list<Tensor> operands) {
    return message_of([&] { einsum(equation, operands); });
  };
  EXPECT_THAT(message("...i->i", {x}), HasSubstr("has an ellipsis, which is not supported"));
  EXPECT_THAT(message("ij,jk->ik", {x}), HasSubstr("has 2 operands, there are 1"));
  EXPECT_THAT(message("ijk->i", {x}),
              HasSubstr("operand 0 has shape [2, 3], its labels are `ijk`"));
  EXPECT_THAT(message("ij,ij->", {x, numbered({3, 2})}), HasSubstr("`i` is 2 and, in operand 1"));
  EXPECT_THAT(message("ij->k", {x}), HasSubstr("`k` in the result of `ij->k` is no label"));
  EXPECT_THAT(message("ij->ii", {x}), HasSubstr("has `i` twice"));
  EXPECT_THAT(message("i1->i", {x}), HasSubstr("has an unexpected `1`"));
  EXPECT_THAT(message("ij->i->j", {x}), HasSubstr("has an unexpected `-`"));
  EXPECT_THAT(message("ij->i,j", {x}), HasSubstr("has an unexpected `,`"));
}

TEST(Conv1d, SlidesAlongTheLastAxis) {
  const Tensor x = from_values({1.0F, 2.0F, 3.0F, 4.0F}, {1, 1, 4});
  const Tensor weight = from_values({1.0F, 10.0F}, {1, 1, 2});
  const Tensor bias = from_values({0.5F}, {1});
  EXPECT_THAT(conv1d(x, weight).to_vector<float>(), ElementsAre(21, 32, 43));
  EXPECT_THAT(conv1d(x, weight, bias, {.stride = 2, .padding = 1}).to_vector<float>(),
              ElementsAre(10.5F, 32.5F, 4.5F));
  EXPECT_THAT(conv1d(x, weight, {}, {.dilation = 2}).to_vector<float>(), ElementsAre(31, 42));
  const Tensor two = numbered({1, 2, 3});
  EXPECT_THAT(conv1d(two, ones({2, 1, 3}), {}, {.groups = 2}).to_vector<float>(),
              ElementsAre(3, 12));
  EXPECT_THAT(message_of([&] {
                conv1d(numbered({2, 3}), weight);
              }),
              HasSubstr("[conv1d] x has shape [2, 3] and the weight [1, 1, 2]"));
}

TEST(Conv1d, HasGradients) {
  const Tensor x = ones({1, 1, 4}).set_requires_grad(true);
  const Tensor loss = sum(conv1d(x, from_values({1.0F, 10.0F}, {1, 1, 2})));
  EXPECT_THAT(grad({&loss, 1}, {&x, 1})[0].to_vector<float>(), ElementsAre(1, 11, 11, 10));
}

}  // namespace
}  // namespace mezzo

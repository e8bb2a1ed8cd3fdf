// Tests attention, the layers of transformers and positions. tests/golden/transformers_test.cpp
// compares their numbers with PyTorch's.
#include "mezzo/nn/transformer.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/heads.h"
#include "mezzo/nn/positions.h"
#include "mezzo/nn/swi_glu.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/piecewise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"
#include "tests/unit/nn/example_net.h"

namespace mezzo::nn {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kEps = std::numeric_limits<float>::epsilon();

using Floats = std::vector<float>;

Tensor bools(std::vector<int> values, const Shape& shape) {
  std::vector<std::int64_t> numbers(values.begin(), values.end());
  return ne(from_values<std::int64_t>(numbers, shape), 0);
}

// A sum of `terms` products of numbers of about 1 has at most that error, a few layers on.
void expect_close(const Tensor& a, const Tensor& b, double terms) {
  ASSERT_EQ(a.shape(), b.shape());
  const std::vector<double> x = a.to_vector<double>();
  const std::vector<double> y = b.to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 4 * terms * kEps) << i;
}

TEST(Heads, AreNeighbouringFeaturesAndComeBack) {
  const Tensor x = randn({2, 3, 8});
  const Tensor heads = split_heads(x, 4);
  EXPECT_EQ(heads.shape(), (Shape{2, 4, 3, 2}));
  EXPECT_EQ(reshape(slice(heads, 1, 1, 2), {2, 3, 2}).to_vector<float>(),
            slice(x, 2, 2, 4).to_vector<float>());
  EXPECT_EQ(merge_heads(heads).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(split_heads(x, 4).storage(), x.storage());
  EXPECT_THAT(message_of([&] { split_heads(x, 3); }), HasSubstr("8 features cannot be divided"));
  EXPECT_THAT(message_of([&] { split_heads(randn({2, 8}), 2); }), HasSubstr("[2, 8]"));
}

TEST(MultiHeadAttention, HasPyTorchsStateAndInitialValues) {
  manual_seed(1);
  const MultiHeadAttention net(32, 4);
  EXPECT_THAT(names_of(net.state()),
              ElementsAre("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"));
  EXPECT_EQ(net.in_proj_weight().shape(), (Shape{96, 32}));
  EXPECT_THAT(net.in_proj_bias().to_vector<float>(), Each(0));
  // xavier_uniform of [96, 32].
  const double bound = std::sqrt(6.0 / (96 + 32));
  EXPECT_LE(max(abs(net.in_proj_weight())).item(), bound);
  EXPECT_GE(max(abs(net.in_proj_weight())).item(), 0.99 * bound);
  EXPECT_THAT(names_of(MultiHeadAttention(8, 2, {.bias = false}).state()),
              ElementsAre("in_proj_weight", "out_proj.weight"));
}

// The same numbers by one product, two or three.
TEST(MultiHeadAttention, SharedInputsShareProducts) {
  manual_seed(2);
  MultiHeadAttention net(16, 4);
  const Tensor x = randn({2, 5, 16});
  const Tensor same = copy_of(x);
  const Tensor once = net(x);
  expect_close(net(Tensors{x, same, same}).front(), once, 16);
  expect_close(net(Tensors{x, same, copy_of(x)}).front(), once, 16);
}

// True means "may be attended to".
TEST(MultiHeadAttention, AHiddenKeyIsLikeNoKey) {
  manual_seed(3);
  MultiHeadAttention net(16, 2);
  const Tensor query = randn({2, 3, 16});
  const Tensor key = randn({2, 4, 16});
  const Tensor shorter = contiguous(slice(key, 1, 0, 3));
  const Tensor expected = net(Tensors{query, shorter, shorter}).front();
  const Tensor key_mask = bools({1, 1, 1, 0, 1, 1, 1, 0}, {2, 4});
  const Tensor mask = bools({1, 1, 1, 0}, {1, 4});
  const Tensor added = from_values({0.0F, 0.0F, 0.0F, -INFINITY}, {1, 4});
  const Tensor all = bools({1, 1, 1, 1}, {1, 4});
  const Tensor none = zeros({1, 4});
  for (const Tensors& masks : {Tensors{key_mask}, Tensors{{}, mask}, Tensors{{}, added},
                               Tensors{key_mask, all}, Tensors{key_mask, none}}) {
    Tensors inputs{query, key, key};
    inputs.insert(inputs.end(), masks.begin(), masks.end());
    expect_close(net(inputs).front(), expected, 16);
  }
}

TEST(MultiHeadAttention, AQueryThatSeesNothingGetsTheLastBias) {
  manual_seed(4);
  MultiHeadAttention net(8, 2);
  for (const Module::Member& member : net.children()[0].module->own_parameters()) {
    if (member.name == "bias") fill(*member.tensor, 0.5);
  }
  const Tensor x = randn({1, 3, 8});
  const Tensor y = net(Tensors{x, x, x, bools({0, 0, 0}, {1, 3})}).front();
  EXPECT_THAT(y.to_vector<float>(), Each(0.5F));
}

TEST(MultiHeadAttention, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(message_of([] { MultiHeadAttention(10, 4); }),
              HasSubstr("the size 10 cannot be divided among 4 heads"));
  EXPECT_THAT(message_of([] { MultiHeadAttention(8, 2, {.dropout = 1}); }),
              HasSubstr("dropout must be in [0, 1), not 1"));
  MultiHeadAttention net(8, 2);
  const Tensor x = randn({1, 3, 8});
  EXPECT_THAT(message_of([&] { net(Tensors{x, x}); }), HasSubstr("there are 2"));
  EXPECT_THAT(message_of([&] { net(Tensors{x, x, {}}); }), HasSubstr("undefined"));
  EXPECT_THAT(message_of([&] {
                net(Tensors{x, x, x, zeros({1, 3})});
              }),
              HasSubstr("key_mask must be bool [batch, keys]"));
}

TEST(TransformerLayers, HavePyTorchsState) {
  EXPECT_THAT(
      names_of(TransformerEncoderLayer(8, 2).state()),
      ElementsAre("self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
                  "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight",
                  "linear2.bias", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"));
  const TransformerDecoderLayer decoder(8, 2, {.feedforward = 16});
  EXPECT_EQ(decoder.state().size(), 18U);
  EXPECT_EQ(decoder.state()[4].name, "multihead_attn.in_proj_weight");
}

// At O2, add() would make the stream bf16.
TEST(TransformerLayers, KeepTheStreamInF32) {
  manual_seed(5);
  TransformerEncoderLayer encoder(16, 2, {.feedforward = 32, .norm_first = true});
  TransformerDecoderLayer decoder(16, 2, {.feedforward = 32, .norm_first = true});
  const Tensor x = randn({2, 4, 16});
  const amp::Autocast region({.level = amp::Level::kO2, .lower = DType::kBf16});
  EXPECT_EQ(encoder(x).dtype(), DType::kF32);
  EXPECT_EQ(decoder(Tensors{x, x}).front().dtype(), DType::kF32);
}

TEST(TransformerLayers, DropInTrainingOnly) {
  manual_seed(6);
  TransformerEncoderLayer layer(16, 2, {.feedforward = 32, .dropout = 0.5});
  const Tensor x = randn({2, 4, 16});
  EXPECT_NE(layer(x).to_vector<float>(), layer(x).to_vector<float>());
  layer.eval();
  EXPECT_EQ(layer(x).to_vector<float>(), layer(x).to_vector<float>());
}

TEST(TransformerLayers, RefuseOtherNumbersOfInputs) {
  TransformerEncoderLayer encoder(8, 2);
  TransformerDecoderLayer decoder(8, 2);
  const Tensor x = randn({1, 3, 8});
  EXPECT_THAT(message_of([&] { encoder(Tensors{x, {}, {}, {}}); }), HasSubstr("there are 4"));
  EXPECT_THAT(message_of([&] { decoder(Tensors{x}); }), HasSubstr("there are 1"));
}

TEST(SwiGlu, IsTheGatedLayer) {
  SwiGlu net(2, 1);
  EXPECT_THAT(names_of(net.state()),
              ElementsAre("gate_proj.weight", "up_proj.weight", "down_proj.weight"));
  net.load_state({{"gate_proj.weight", from_values({1.0F, 0.0F}, {1, 2})},
                  {"up_proj.weight", from_values({0.0F, 3.0F}, {1, 2})},
                  {"down_proj.weight", from_values({1.0F, -1.0F}, {2, 1})}});
  const std::vector<double> y = net(from_values({2.0F, 5.0F}, {1, 2})).to_vector<double>();
  const double hidden = 2 / (1 + std::exp(-2.0)) * 15;
  EXPECT_NEAR(y[0], hidden, 8 * kEps * hidden);
  EXPECT_NEAR(y[1], -hidden, 8 * kEps * hidden);
}

TEST(Positions, SinusoidsAreThePapers) {
  const SinusoidalPositions positions(50, 6);
  EXPECT_THAT(names_of(positions.state()), ElementsAre("table"));
  EXPECT_EQ(positions.parameter_count(), 0);
  const Floats table = positions.table().to_vector<float>();
  for (const int p : {0, 1, 49}) {
    for (int i = 0; i < 3; ++i) {
      const double angle = p / std::pow(10000.0, 2 * i / 6.0);
      EXPECT_NEAR(table[p * 6 + 2 * i], std::sin(angle), kEps);
      EXPECT_NEAR(table[p * 6 + 2 * i + 1], std::cos(angle), kEps);
    }
  }
}

TEST(Positions, MayBeNamed) {
  LearnedPositions positions(4, 2);
  const Tensor x = randn({2, 3, 2});
  const Tensor named = from_values<std::int64_t>({0, 1, 2, 3, 0, 0}, {2, 3});
  const Tensor rows = reshape(embedding(positions.weight(), named), {2, 3, 2});
  EXPECT_EQ(positions.at(named, x).to_vector<float>(), (x + rows).to_vector<float>());
  EXPECT_EQ(
      positions.at(from_values<std::int64_t>({0, 1, 2, 0, 1, 2}, {2, 3}), x).to_vector<float>(),
      positions(x).to_vector<float>());
  EXPECT_THAT(message_of([&] {
                positions.at(named, randn({2, 2, 2}));
              }),
              HasSubstr("x must have the shape [2, 3, 2], it has [2, 2, 2]"));
}

TEST(Positions, AreAddedToTheFirstTokens) {
  LearnedPositions positions(4, 2);
  EXPECT_THAT(names_of(positions.state()), ElementsAre("weight"));
  const Tensor x = randn({3, 2, 2});
  const Floats expected = (x + slice(positions.weight(), 0, 0, 2)).to_vector<float>();
  EXPECT_EQ(positions(x).to_vector<float>(), expected);
  EXPECT_THAT(message_of([&] {
                positions(randn({3, 5, 2}));
              }),
              HasSubstr("there are 5 tokens, but only 4 positions"));
  EXPECT_THAT(message_of([&] { positions(randn({3, 2, 3})); }), HasSubstr("[tokens, 2]"));
  EXPECT_THAT(message_of([] { SinusoidalPositions(4, 3); }), HasSubstr("must be even"));
}

}  // namespace
}  // namespace mezzo::nn

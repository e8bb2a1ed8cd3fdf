// Tests a causal attention mask, made and used in a step, eagerly and in graph mode.
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/text.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/piecewise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/smooth_l1_loss.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/ops/support.h"

namespace mezzo::graph {
namespace {

using testing::HasSubstr;
using Tensors = std::span<const Tensor>;

constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kTokens = 7;
constexpr std::int64_t kWidth = 4;
constexpr double kNever = -std::numeric_limits<double>::infinity();

// [kTokens, kTokens], true above the diagonal: later tokens are ignored.
Tensor future(const Tensor& positions) {
  return lt(reshape(positions, {kTokens, 1}), reshape(positions, {1, kTokens}));
}

// Attention of tokens to themselves and to earlier ones. x: [n, heads, tokens, width].
Tensor masked_by_hand(const Tensor& x, const Tensor& weight, const Tensor& positions) {
  const Tensor queries = linear(x, weight);
  const Tensor scores = matmul(queries, x, {.transpose_b = true}) / std::sqrt(double{kWidth});
  return matmul(softmax(masked_fill(scores, future(positions), kNever)), x);
}

struct Attention {
  Tensor weight = test::parameter({kWidth, kWidth}, 5);
  Tensor positions = arange(kTokens, DType::kI64);

  // The output and the loss of a step in bf16, which sets the weight's gradient.
  std::vector<Tensor> step(Tensors in) {
    weight.clear_grad();
    const amp::Autocast region(DType::kBf16);
    const Tensor y = masked_by_hand(in[0], weight, positions);
    const Tensor loss = huber_loss(y, in[1], 0.5);
    loss.backward();
    return {y, loss};
  }
};

Tensor tokens(std::uint64_t seed) {
  return test::random_tensor({3, kHeads, kTokens, kWidth}, seed);
}

// The score of two tokens: (weight * a) . b / sqrt(width).
double plain_score(const double* a, const double* b, const std::vector<double>& weight) {
  double score = 0;
  for (std::int64_t out = 0; out < kWidth; ++out) {
    for (std::int64_t in = 0; in < kWidth; ++in)
      score += weight[out * kWidth + in] * a[in] * b[out];
  }
  return score / std::sqrt(double{kWidth});
}

// The attention of token i to the rows of one head, where the mask is the end of a loop.
void attend(const double* rows, std::int64_t i, const std::vector<double>& weight, double* y) {
  double total = 0;
  for (std::int64_t j = 0; j <= i; ++j) {
    const double share = std::exp(plain_score(rows + i * kWidth, rows + j * kWidth, weight));
    total += share;
    for (std::int64_t k = 0; k < kWidth; ++k) y[k] += share * rows[j * kWidth + k];
  }
  for (std::int64_t k = 0; k < kWidth; ++k) y[k] /= total;
}

// The same in double, with plain loops.
std::vector<double> plain_attention(const Tensor& tokens_of_all, const Tensor& weight) {
  const auto x = tokens_of_all.to_vector<double>();
  const auto w = weight.to_vector<double>();
  std::vector<double> y(x.size(), 0);
  constexpr std::size_t kHead = kTokens * kWidth;
  for (std::size_t head = 0; head < x.size(); head += kHead) {
    for (std::int64_t i = 0; i < kTokens; ++i) attend(&x[head], i, w, &y[head + i * kWidth]);
  }
  return y;
}

TEST(MaskedAttention, IsThatOfPlainLoops) {
  Attention net;
  const Tensor x = tokens(1);
  const std::vector<double> want = plain_attention(x, net.weight.detach());
  const std::vector<double> exact =
      masked_by_hand(x.astype(DType::kF64), net.weight.detach().astype(DType::kF64), net.positions)
          .to_vector<double>();
  const std::vector<double> lower =
      net.step(std::vector<Tensor>{x, tokens(2)})[0].to_vector<double>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(exact[i], want[i], 1e-12);
    // Products, scores, shares and results of values below 1, each rounded to bf16.
    EXPECT_NEAR(lower[i], want[i], 8 * epsilon_of(DType::kBf16));
  }
}

// Changing a token changes no bit of earlier results.
TEST(MaskedAttention, LooksAtNothingThatComesLater) {
  Attention net;
  const Tensor x = tokens(1);
  Tensor other = copy_of(x);
  fill(slice(other, 2, kTokens - 1, kTokens), 3);
  const Tensor y = net.step(std::vector<Tensor>{x, x})[0];
  const Tensor z = net.step(std::vector<Tensor>{other, x})[0];
  const auto before = [](const Tensor& t) {
    return slice(t, 2, 0, kTokens - 1).to_vector<float>();
  };
  EXPECT_EQ(before(y), before(z));
  EXPECT_NE(y.to_vector<float>(), z.to_vector<float>());
}

void expect_same_as_eager(const CompileOptions& options) {
  Attention net;
  CompiledStep compiled = compile([&](Tensors in) { return net.step(in); }, options);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const std::vector<Tensor> in{tokens(seed), tokens(10 + seed)};
    const std::vector<Tensor> eager = net.step(in);
    const std::vector<float> gradient = net.weight.grad().to_vector<float>();
    net.weight.clear_grad();
    const std::vector<Tensor> replayed = compiled(in);
    EXPECT_EQ(replayed[0].to_vector<float>(), eager[0].to_vector<float>());
    EXPECT_EQ(replayed[1].item(), eager[1].item());
    EXPECT_EQ(net.weight.grad().to_vector<float>(), gradient);
  }
}

TEST(MaskedAttention, GraphModeGivesTheSameBits) {
  CompileOptions as_eager;
  as_eager.passes.disabled = {"paint_precision"};
  expect_same_as_eager(as_eager);
  expect_same_as_eager({});
}

// Scores are computed in bf16 and softmax in f32; the mask is bool, made from integers.
TEST(MaskedAttention, TheProgramSaysWhatItDoes) {
  Attention net;
  const std::vector<Tensor> in{tokens(1), tokens(2)};
  const Program program = capture_improved([&](Tensors t) { return net.step(t); }, in, {});
  const std::string text = to_text(program);
  EXPECT_THAT(text, HasSubstr("bool[7, 7] = compare("));
  EXPECT_THAT(text, HasSubstr("{relation=lt}"));
  EXPECT_THAT(text, HasSubstr("{number=-inf where=true}"));
  EXPECT_THAT(text, HasSubstr("{beta=0.5 slope=0.5}"));
  EXPECT_EQ(to_text(parse_program(text)), text);
}

// Covers the other selections and their gradients, too, inside and outside of a program.
TEST(Selection, GraphModeGivesTheSameBits) {
  const Tensor w = test::parameter({5, 9}, 3);
  const auto step = [&](Tensors in) -> std::vector<Tensor> {
    w.clear_grad();
    const amp::Autocast region(DType::kBf16);
    const Tensor x = matmul(in[0], w);
    const Tensor bounded = maximum(minimum(x, 0.5 * in[1]), in[1] * -0.5);
    const Tensor y = where(gt(abs(x), 0.25), bounded, x * x);
    const Tensor loss = l1_loss(y, in[1]);
    loss.backward();
    return {y, loss, where(ge(y, 0), ne(x, y), eq(x, y))};
  };
  CompiledStep compiled = compile(step);
  for (const std::uint64_t seed : {1U, 2U}) {
    const std::vector<Tensor> in{test::random_tensor({4, 5}, seed),
                                 test::random_tensor({4, 9}, 10 + seed)};
    const std::vector<Tensor> eager = step(in);
    const std::vector<float> gradient = w.grad().to_vector<float>();
    w.clear_grad();
    const std::vector<Tensor> replayed = compiled(in);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      EXPECT_EQ(replayed[i].dtype(), eager[i].dtype());
      EXPECT_EQ(replayed[i].to_vector<float>(), eager[i].to_vector<float>()) << i;
    }
    EXPECT_EQ(w.grad().to_vector<float>(), gradient);
  }
}

}  // namespace
}  // namespace mezzo::graph

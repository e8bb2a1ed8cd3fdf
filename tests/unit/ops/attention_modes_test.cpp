// Tests attention in eager and graph mode, recomputed, in regions of mixed precision, and its
// dropout and memory.
#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/allocator.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/capture.h"
#include "mezzo/graph/compile.h"
#include "mezzo/graph/executable.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/attention_attrs.h"
#include "mezzo/ops/attention_by_ops.h"
#include "mezzo/ops/dropout.h"
#include "tests/unit/ops/attention_case.h"

namespace mezzo {
namespace {

using test::AttentionTensors;
using test::Doubles;

// Attention with dropout, between two linear layers.
class Attend final : public nn::Module {
 public:
  explicit Attend(double dropout) : in_(8, 24), out_(8, 8), dropout_(dropout) {
    add("in", in_);
    add("out", out_);
  }
  // x: [b, t, 8].
  Tensor forward(const Tensor& x) override {
    const Shape& s = x.shape();
    const Tensor joined = reshape(in_(x), {s[0], s[1], 3, 2, 4});
    const auto part = [&](std::int64_t i) {
      return permute(reshape(slice(joined, 2, i, i + 1), {s[0], s[1], 2, 4}), {0, 2, 1, 3});
    };
    const Tensor y = attention(part(0), part(1), part(2), {.causal = true, .dropout = dropout_});
    return out_(reshape(permute(y, {0, 2, 1, 3}), {s[0], s[1], 8}));
  }

 private:
  nn::Linear in_;
  nn::Linear out_;
  double dropout_;
};

class Twice final : public nn::Module {
 public:
  explicit Twice(double dropout) : first_(dropout), second_(dropout) {
    add("first", first_);
    add("second", second_);
  }
  Tensor forward(const Tensor& x) override { return second_(first_(x)); }

  void recompute_both() {
    nn::recompute(first_);
    nn::recompute(second_);
  }

 private:
  Attend first_;
  Attend second_;
};

// The result of a step, and the gradients of all parameters.
std::vector<Doubles> run_step(Twice& net,
                              const std::function<std::vector<Tensor>(const Tensor&)>& step) {
  const Tensor x = test::random_tensor({2, 70, 8}, 7);
  for (const Tensor& parameter : net.parameters()) parameter.clear_grad();
  default_generator().set_position({5, 12});
  std::vector<Doubles> all{step(x)[0].to_vector<double>()};
  for (const Tensor& parameter : net.parameters()) {
    all.push_back(parameter.grad().to_vector<double>());
  }
  all.push_back({static_cast<double>(default_generator().position().offset)});
  return all;
}

TEST(AttentionModes, EagerGraphAndRecomputedStepsHaveTheSameBits) {
  for (const double dropout : {0.0, 0.3}) {
    manual_seed(1);
    Twice net(dropout);
    const auto step = [&](std::span<const Tensor> in) {
      const Tensor y = net(in[0]);
      const Tensor loss = sum(y * y);
      loss.backward();
      return std::vector<Tensor>{loss};
    };
    const auto eagerly = [&](const Tensor& x) { return step({&x, 1}); };
    const std::vector<Doubles> eager = run_step(net, eagerly);
    graph::CompiledStep compiled(step, {.networks = {&net}});
    const auto replayed = [&](const Tensor& x) { return compiled({&x, 1}); };
    for (int run = 0; run < 2; ++run) EXPECT_EQ(run_step(net, replayed), eager) << dropout;
    net.recompute_both();
    EXPECT_EQ(run_step(net, eagerly), eager) << dropout;
  }
}

TEST(AttentionModes, DropsByTheStreamOfDropout) {
  constexpr std::int64_t kKeys = 71;  // rows of 72 words
  AttentionTensors x({2, 4, 2, 66, kKeys, 16, 16});
  for (const std::uint64_t offset : {std::uint64_t{0}, (std::uint64_t{1} << 34U) - 64}) {
    default_generator().set_position({9, offset});
    const auto got = test::with_gradients(x, attention(x.q, x.k, x.v, {.dropout = 0.25}));
    default_generator().set_position({9, offset});
    const AttentionTensors wide = x.in_double();
    const auto want =
        test::with_gradients(wide, attention(wide.q, wide.k, wide.v, {.dropout = 0.25}));
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(test::largest_difference(got[i], want[i]), 1e-4) << i;
    }
    // All values 1: the result is the sum of what is kept of equal probabilities.
    default_generator().set_position({9, offset});
    const Tensor y =
        attention(zeros({2, 4, 66, 16}), x.k, ones({2, 2, kKeys, 1}), {.dropout = 0.25});
    default_generator().set_position({9, offset});
    const Tensor kept = slice(dropout(ones({2, 4, 66, 72}), 0.25), 3, 0, kKeys);
    EXPECT_LE(test::largest_difference(y, mean(kept, {3}, true)), 1e-5);
  }
}

TEST(AttentionModes, RegionsCastTheOperandsAndLeaveTheMask) {
  const AttentionTensors x({1, 2, 2, 9, 9, 16, 16});
  const Tensor mask = test::random_tensor({9, 9}, 5);
  for (const DType dtype : kLowerDTypes) {
    const auto narrow = [&](const Tensor& t) { return t.detach().astype(dtype); };
    const Tensor want =
        attention(narrow(x.q), narrow(x.k), narrow(x.v), {.mask = mask, .causal = true});
    const amp::Autocast region(dtype);
    const Tensor y = attention(x.q, x.k, x.v, {.mask = mask, .causal = true});
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to_vector<double>(), want.to_vector<double>());
    y.backward(ones(y.shape(), dtype));
    EXPECT_EQ(x.q.grad().dtype(), DType::kF32);
  }
}

// q k^T is 80,000 before it is scaled, and the mask is -1e9: f16 ends at 65,504.
TEST(AttentionModes, ComposedScoresStayF32InARegion) {
  const Tensor q = full({1, 1, 1, 8}, 100);
  const Tensor k = reshape(from_values<float>({100, 96, 104}, {3, 1}) * ones({3, 8}), {1, 1, 3, 8});
  const Tensor v = from_values<float>({1, 2, 3}, {1, 1, 3, 1});
  const Tensor mask = from_values<float>({0, 0.5, -1e9}, {1, 1, 1, 3});
  constexpr double kScale = 1e-4;
  const double other = std::exp(0.5 - 3200 * kScale);  // next to 1, that of the first key
  const double want = (1 + 2 * other) / (1 + other);
  const amp::Autocast region(amp::Policy{.level = amp::Level::kO2, .lower = DType::kF16});
  const Tensor y = attention_by_ops({q, k, v, mask, Tensor()}, {.scale = kScale});
  EXPECT_EQ(y.dtype(), DType::kF16);
  // Two probabilities and the result are rounded.
  EXPECT_NEAR(y.item(), want, 2 * want * epsilon_of(DType::kF16));
}

TEST(AttentionModes, ComposedAttentionSeesALargeNegativeMaskBesideAHiddenKey) {
  const Tensor q = test::random_tensor({1, 1, 2, 8}, 1);
  const Tensor k = test::random_tensor({1, 1, 2, 8}, 2);
  const Tensor v = from_values<float>({3, 5}, {1, 1, 2, 1});
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const Tensor mask = from_values<float>({kLowest, kHidden, kHidden, kLowest}, {1, 1, 2, 2});
  const Tensor y = attention_by_ops({q, k, v, mask, Tensor()}, {});
  EXPECT_EQ(y.to_vector<double>(), (Doubles{3, 5}));
}

TEST(AttentionModes, SixteenAndThirtyTwoBitsMix) {
  const AttentionTensors x({1, 1, 1, 4, 4, 8, 8});
  const Tensor narrow = x.k.detach().astype(DType::kBf16);
  EXPECT_EQ(attention(x.q, narrow, narrow).dtype(), DType::kF32);
}

// Peak of tensors beyond those that exist before, for a forward and a backward pass.
std::int64_t peak_of(std::int64_t positions) {
  const AttentionTensors x({1, 2, 2, positions, positions, 16, 16});
  CachingAllocator& allocator = cpu_allocator();
  const std::int64_t before = allocator.stats().live_bytes;
  allocator.reset_peak();
  const auto all = test::with_gradients(x, attention(x.q, x.k, x.v, {.causal = true}));
  return allocator.stats().peak_bytes - before;
}

TEST(AttentionModes, MemoryIsLinearInPositions) {
  const test::Threads one(1);
  const std::int64_t least = peak_of(512);
  for (const std::int64_t factor : {2, 4, 8}) {
    EXPECT_LE(peak_of(factor * 512), factor * least) << factor;
  }
  // One head's scores alone would take 64 MB.
  EXPECT_LT(peak_of(4096), 16 << 20);
}

TEST(AttentionModes, DifferentiatesTwice) {
  const AttentionTensors x = AttentionTensors({1, 2, 1, 3, 4, 5, 5}).in_double();
  const auto second = [&](const Tensor& y) {
    const Tensor leaves[] = {x.q, x.k, x.v};
    const Tensor grads[] = {x.grad};
    const auto first = grad({&y, 1}, leaves, grads, {.create_graph = true});
    const Tensor total = sum(first[0] * first[0]) + sum(first[1] * first[2]);
    return grad({&total, 1}, leaves);
  };
  const auto got = second(attention(x.q, x.k, x.v, {.causal = true}));
  const auto want = second(test::composed_attention(x, {.causal = true}));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LE(test::largest_difference(got[i], want[i]), 1e-10) << i;
  }
}

}  // namespace
}  // namespace mezzo

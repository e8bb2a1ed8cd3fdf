// Tests attention and its gradient against composed double arithmetic, on every instruction set.
#include "mezzo/ops/attention.h"

#include <limits>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/attention/forward.h"
#include "mezzo/kernels/cpu/attention/grad.h"
#include "mezzo/ops/attention_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "tests/unit/every_target.h"
#include "tests/unit/message_of.h"
#include "tests/unit/ops/attention_case.h"

namespace mezzo {
namespace {

using test::AttentionSize;
using test::AttentionTensors;
using test::Doubles;
using testing::Each;
using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The result and the gradients in double, computed once for all instruction sets. `name` names the
// mask.
const std::vector<Tensor>& composed(const AttentionSize& s, DType dtype,
                                    const AttentionOptions& options, const std::string& name) {
  static std::map<std::string, std::vector<Tensor>> known;
  std::vector<Tensor>& all =
      known[concat(s.batch, " ", s.heads, " ", s.key_heads, " ", s.queries, " ", s.keys, " ",
                   s.features, " ", s.values, " ", dtype, " ", options.causal, " ", name)];
  if (all.empty()) {
    const AttentionTensors wide = AttentionTensors(s, dtype).in_double();
    all = test::with_gradients(wide, test::composed_attention(wide, options));
  }
  return all;
}

// Compares the result and the gradients of q, k and v with composed double arithmetic.
void expect_composed(const AttentionSize& size, DType dtype, const AttentionOptions& options,
                     const std::string& name = "none") {
  const test::Threads one(1);  // the operands are small
  const AttentionTensors x(size, dtype);
  const auto got = test::with_gradients(x, attention(x.q, x.k, x.v, options));
  const auto& want = composed(size, dtype, options, name);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].dtype(), dtype);
    ASSERT_EQ(got[i].shape(), want[i].shape());
    const double allowed = test::attention_tolerance(size, dtype, test::largest_of(want[i]));
    EXPECT_LE(test::largest_difference(got[i], want[i]), allowed)
        << concat(i, " of ", x.q, " ", x.k, " ", x.v, " causal ", options.causal, " mask ", name);
  }
}

class AttentionOnEveryTarget : public test::OnEveryTarget {};

TEST_P(AttentionOnEveryTarget, AgreesWithDoubleArithmeticForEveryWidth) {
  for (const DType dtype : test::kVectorDTypes) {
    for (const std::int64_t features : {32, 33, 64, 80, 96, 128, 256}) {
      expect_composed({1, 2, 1, 19, 40, features, features}, dtype, {});
      expect_composed({1, 2, 1, 19, 40, features, 37}, dtype, {.causal = true});
    }
  }
}

TEST_P(AttentionOnEveryTarget, AgreesWithDoubleArithmeticForEveryLength) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t keys : {1, 7, 33, 64, 129, 200}) {
      for (const std::int64_t queries : {std::int64_t{1}, std::int64_t{7}, keys - 3, keys}) {
        if (queries < 1 || (causal && queries > keys)) continue;
        expect_composed({2, 2, 2, queries, keys, 24, 24}, DType::kF32, {.causal = causal});
        expect_composed({1, 3, 1, queries, keys, 15, 16}, DType::kBf16, {.causal = causal});
      }
    }
  }
}

// Every query sees some key.
TEST_P(AttentionOnEveryTarget, MasksAreBroadcast) {
  const AttentionSize size{2, 4, 2, 35, 67, 16, 16};
  for (const Shape& shape : {Shape{2, 4, 35, 67}, Shape{2, 1, 1, 67}, Shape{1, 4, 35, 1}, Shape{67},
                             Shape{35, 67}, Shape{1, 1, 1, 1}}) {
    const Tensor numbers = test::random_tensor(shape, 9);
    Tensor open = gt(numbers, -0.7);
    if (shape.back() == 1) open = gt(numbers, -2.0);
    for (const bool causal : {false, true}) {
      if (causal && shape.back() != 1) continue;  // a row may then see nothing
      expect_composed(size, DType::kF32, {.mask = open, .causal = causal}, concat("bool ", shape));
      expect_composed(size, DType::kF32, {.mask = numbers, .causal = causal},
                      concat("f32 ", shape));
      expect_composed(size, DType::kBf16, {.mask = numbers.astype(DType::kBf16), .causal = causal},
                      concat("bf16 ", shape));
    }
  }
}

TEST_P(AttentionOnEveryTarget, BitsDoNotDependOnThreads) {
  // Few heads are divided among threads, many are not.
  for (const std::int64_t heads : {2, 6}) {
    const AttentionTensors x({1, heads, heads / 2, 200, 230, 32, 24});
    std::vector<Doubles> first;
    for (const int threads : {1, 2, 3, 5}) {
      const test::Threads guard(threads);
      std::vector<Doubles> bits;
      for (const Tensor& t : test::with_gradients(x, attention(x.q, x.k, x.v, {.causal = true}))) {
        bits.push_back(t.to_vector<double>());
      }
      if (first.empty()) first = bits;
      EXPECT_EQ(bits, first) << threads << " threads, " << heads << " heads";
    }
  }
}

TEST_P(AttentionOnEveryTarget, RowsAreReadByTheirStrides) {
  // All three are parts of one tensor [b, t, 3, h, d], as a layer makes them.
  const Tensor joined = test::random_tensor({2, 40, 3, 3, 20}, 5);
  const auto part = [&](std::int64_t i) {
    return permute(reshape(slice(joined, 2, i, i + 1), {2, 40, 3, 20}), {0, 2, 1, 3});
  };
  const auto bits_of = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return attention(q, k, v, {.causal = true}).to_vector<double>();
  };
  const Doubles want = bits_of(contiguous(part(0)), contiguous(part(1)), contiguous(part(2)));
  EXPECT_EQ(bits_of(part(0), part(1), part(2)), want);
  // The last dimension has gaps.
  const auto spread = [&](std::int64_t i) {
    const Tensor wide = test::random_tensor({2, 3, 40, 40}, 6);
    const Tensor x = slice(wide, 3, 0, 40, 2);
    copy_elements(part(i), x);
    return x;
  };
  EXPECT_EQ(bits_of(spread(0), spread(1), spread(2)), want);
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionOnEveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), test::target_name);

TEST(Attention, QueriesThatSeeNothingGiveZeros) {
  const AttentionTensors x({1, 2, 1, 5, 70, 8, 8});
  const Tensor open = test::random_tensor({5, 70}, 1);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBf16}) {
    for (const bool is_bool : {true, false}) {
      AttentionTensors y = x;
      for (Tensor* t : {&y.q, &y.k, &y.v, &y.grad}) *t = t->detach().astype(dtype);
      for (Tensor* t : {&y.q, &y.k, &y.v}) t->set_requires_grad(true);
      const Tensor closed = lt(reshape(arange(5), {5, 1}) + zeros({5, 70}), 2.0);
      const Tensor mask =
          is_bool ? eq(closed, 0.0) : masked_fill(zeros({5, 70}), closed, -kInfinity);
      const auto all = test::with_gradients(y, attention(y.q, y.k, y.v, {.mask = mask}));
      EXPECT_THAT(slice(all[0], 2, 0, 2).to_vector<double>(), Each(0));
      EXPECT_THAT(slice(all[1], 2, 0, 2).to_vector<double>(), Each(0));
      EXPECT_GT(test::largest_of(slice(all[1], 2, 2, 5)), 0);
      for (const Tensor& t : all) EXPECT_FALSE(std::isnan(sum(t).item()));
    }
  }
}

TEST(Attention, TheSumOfQueriesThatSeeNothingIsInfinite) {
  const Tensor q = ones({1, 3, 1, 4});
  const Tensor mask = zeros({1, 1, 3, 3}, DType::kBool);
  const Tensor start;
  const Outputs outputs =
      call(*find_op("attention"), {&q, &q, &q, &mask, &start}, AttentionAttrs{.scale = 1});
  EXPECT_THAT(outputs[1].to_vector<double>(), Each(kInfinity));
}

// The products of 64 features are 40,000 each: their sums exceed 65504.
TEST(Attention, ScoresOfF16DoNotOverflow) {
  const Tensor q = full({1, 1, 3, 64}, 200, DType::kF16);
  const Tensor v = test::random_tensor({1, 1, 3, 64}, 1, DType::kF16);
  const Tensor y = attention(q, q, v);
  const Tensor want = mean(v, {2}, true);
  EXPECT_LE(test::largest_difference(slice(y, 2, 0, 1), want), 2 * epsilon_of(DType::kF16));
}

TEST(Attention, OneQueryAgainstACacheIsTheLastRow) {
  const AttentionTensors x({2, 4, 2, 150, 150, 32, 32});
  const Tensor all = attention(x.q, x.k, x.v, {.causal = true});
  for (const std::int64_t count : {1, 5}) {
    const Tensor last = attention(slice(x.q, 2, 150 - count, 150), x.k, x.v, {.causal = true});
    EXPECT_LE(test::largest_difference(last, slice(all, 2, 150 - count, 150)), 1e-6);
  }
}

TEST(Attention, TheGradientReachesAFloatingMask) {
  const AttentionTensors x({2, 2, 1, 5, 7, 8, 8});
  const AttentionTensors wide = x.in_double();
  for (const Shape& shape : {Shape{2, 2, 5, 7}, Shape{7}, Shape{2, 1, 5, 1}}) {
    const auto gradient = [&](const AttentionTensors& t, DType dtype, bool composed) {
      const Tensor mask = test::parameter(shape, 8, dtype);
      const Tensor y = composed ? test::composed_attention(t, {.mask = mask})
                                : attention(t.q, t.k, t.v, {.mask = mask});
      y.backward(t.grad);
      return mask.grad();
    };
    const Tensor want = gradient(wide, DType::kF64, true);
    EXPECT_LE(test::largest_difference(gradient(x, DType::kF32, false), want), 1e-5);
    EXPECT_LE(test::largest_difference(gradient(wide, DType::kF64, false), want), 1e-12);
  }
}

TEST(Attention, SaysWhatIsWrong) {
  const Tensor x = ones({2, 4, 3, 8});
  const auto message = [&](const Tensor& q, const Tensor& k, const AttentionOptions& options) {
    return message_of<ArgumentError>([&] { attention(q, k, k, options); });
  };
  EXPECT_THAT(message(ones({4, 3, 8}), x, {}), HasSubstr("[attention] q must have 4 dimensions"));
  EXPECT_THAT(message(x, Tensor(), {}), HasSubstr("k must have 4 dimensions"));
  EXPECT_THAT(message(ones({2, 4, 5, 8}), x, {.causal = true}),
              HasSubstr("5 queries, but only 3 keys"));
  EXPECT_THAT(message(ones({2, 3, 3, 8}), x, {}), HasSubstr("3 heads of q cannot share 4"));
  EXPECT_THAT(message(x, x, {.dropout = 1}), HasSubstr("dropout must be in [0, 1): 1"));
  EXPECT_THAT(message(x, x, {.mask = ones({5, 3})}), HasSubstr("does not broadcast to"));
  EXPECT_THAT(message(x, x, {.mask = ones({1, 1, 1, 3, 3})}), HasSubstr("must broadcast to"));
}

// The kernel of CPUs whose dot product of bf16 is fast, wherever there is one.
TEST(AttentionDots, AgreeWithTheReference) {
  if (!has_bf16_dot()) GTEST_SKIP() << "this CPU has no dot product of bf16";
  for (const std::int64_t features : {7, 32, 64}) {
    for (const bool causal : {false, true}) {
      const AttentionAttrs attrs{
          .causal = causal, .scale = 0.25, .dropout = 0.25, .position = {5, 8}};
      const Tensor q = test::random_tensor({2, 99, 2, features}, 1, DType::kBf16);
      const Tensor k = test::random_tensor({2, 131, 1, features}, 2, DType::kBf16);
      const Tensor v = test::random_tensor({2, 131, 1, 21}, 3, DType::kBf16);
      const Tensor g = test::random_tensor({2, 99, 2, 21}, 4, DType::kBf16);
      const Tensor none;
      const Tensor* const inputs[] = {&q, &k, &v, &none, &none};
      Tensor results[] = {empty(g.shape(), DType::kBf16), empty({2, 2, 99})};
      kernels::attention::run_forward_dots({inputs, results, attrs});
      Outputs want = call(*find_op("attention"), Inputs(inputs), attrs);
      const double unit = epsilon_of(DType::kBf16);
      EXPECT_LE(test::largest_difference(results[0], want[0]), 2 * unit);
      EXPECT_LE(test::largest_difference(results[1], want[1]), 1e-5);
      const Tensor* const more[] = {&g, &q, &k, &v, &none, &want[0], &want[1], &none};
      Tensor grads[] = {empty(q.shape(), DType::kBf16), empty(k.shape(), DType::kBf16),
                        empty(v.shape(), DType::kBf16)};
      kernels::attention::run_grad_dots({more, grads, attrs});
      Outputs plain = call(*find_op("attention_grad"), Inputs(more), attrs);
      for (std::size_t i = 0; i < 3; ++i) {
        const double allowed = 4 * unit * std::max(1.0, test::largest_of(plain[i]));
        EXPECT_LE(test::largest_difference(grads[i], plain[i]), allowed) << i;
      }
    }
  }
}

}  // namespace
}  // namespace mezzo

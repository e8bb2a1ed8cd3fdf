// lstm and gru: lengths, the bits of a sequence, and the same step by step. The sweeps compare them
// with the reference, with all gradients.
#include "mezzo/ops/recurrent.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

struct Kind {
  const char* name;
  std::int64_t gates;
  bool has_cell;
  RecurrentResult (*run)(const Tensor&, const RecurrentWeights&, const RecurrentOptions&);
};
const Kind kKinds[] = {{"lstm", 4, true, lstm}, {"gru", 3, false, gru}};

constexpr std::int64_t kBatch = 7;
constexpr std::int64_t kSteps = 6;
constexpr std::int64_t kHidden = 37;  // panels that are not full, for every vector length

// A call, and what it is differentiated by.
struct Call {
  Tensor gates;
  RecurrentWeights weights;
  RecurrentOptions options;
};

Tensor values(const Shape& shape, std::uint64_t seed, DType dtype = DType::kF32) {
  Generator random(seed);
  return (rand(shape, random) * 2.0 - 1.0).astype(dtype).detach();
}

Call make_call(const Kind& kind, DType dtype, bool reverse) {
  Call call{values({kBatch, kSteps, kind.gates * kHidden}, 1, dtype),
            {values({kind.gates * kHidden, kHidden}, 2, dtype), values({kind.gates * kHidden}, 3)},
            {.lengths = from_values<std::int64_t>({6, 1, 3, 0, 5, 6, 2}, {kBatch}),
             .hidden = values({kBatch, kHidden}, 4),
             .reverse = reverse}};
  if (kind.has_cell) call.options.cell = values({kBatch, kHidden}, 5);
  return call;
}

// The call of sequence n by itself, as long as it is.
Call alone(const Call& all, std::int64_t n) {
  const std::int64_t length = all.options.lengths.data<std::int64_t>()[n];
  Call one = all;
  one.gates = copy_of(slice(slice(all.gates, 0, n, n + 1), 1, 0, length));
  one.options.lengths = {};
  one.options.hidden = copy_of(slice(all.options.hidden, 0, n, n + 1));
  if (all.options.cell.defined()) one.options.cell = copy_of(slice(all.options.cell, 0, n, n + 1));
  return one;
}

struct Results {
  RecurrentResult result;
  Tensor grad_gates{};
  Tensor grad_weight{};
  Tensor grad_hidden{};
};

Results differentiate(const Kind& kind, const Call& given) {
  Call call = given;
  call.gates.set_requires_grad(true);
  call.weights.weight.set_requires_grad(true);
  call.options.hidden.set_requires_grad(true);
  Results results{.result = kind.run(call.gates, call.weights, call.options)};
  const RecurrentResult& r = results.result;
  Tensor total = sum(widen(r.sequence) * 0.75) + sum(r.hidden * r.hidden);
  if (kind.has_cell) total = total + sum(r.cell * 0.5);
  const Tensor leaves[] = {call.gates, call.weights.weight, call.options.hidden};
  const std::vector<Tensor> grads = grad({&total, 1}, leaves);
  results.grad_gates = grads[0];
  results.grad_weight = grads[1];
  results.grad_hidden = grads[2];
  return results;
}

std::vector<double> bits(const Tensor& x) { return x.to_vector<double>(); }

class RecurrentOps : public testing::TestWithParam<std::tuple<int, DType, bool>> {
 protected:
  const Kind& kind() const { return kKinds[std::get<0>(GetParam())]; }
  DType dtype() const { return std::get<1>(GetParam()); }
  bool reverse() const { return std::get<2>(GetParam()); }
  Call call() const { return make_call(kind(), dtype(), reverse()); }
};

TEST_P(RecurrentOps, ASequenceHasTheBitsThatItHasAlone) {
  const Call together = call();
  const Results all = differentiate(kind(), together);
  for (std::int64_t n = 0; n < kBatch; ++n) {
    const std::int64_t length = together.options.lengths.data<std::int64_t>()[n];
    if (length == 0) continue;
    const Results one = differentiate(kind(), alone(together, n));
    const auto row = [&](const Tensor& x) { return bits(slice(x, 0, n, n + 1)); };
    const auto steps = [&](const Tensor& x) {
      return bits(slice(slice(x, 0, n, n + 1), 1, 0, length));
    };
    EXPECT_EQ(steps(all.result.sequence), bits(one.result.sequence)) << n;
    EXPECT_EQ(row(all.result.hidden), bits(one.result.hidden)) << n;
    EXPECT_EQ(steps(all.grad_gates), bits(one.grad_gates)) << n;
    EXPECT_EQ(row(all.grad_hidden), bits(one.grad_hidden)) << n;
    if (kind().has_cell) {
      EXPECT_EQ(row(all.result.cell), bits(one.result.cell)) << n;
    }
  }
}

TEST_P(RecurrentOps, EveryNumberOfThreadsGivesTheSameBits) {
  const Results one = [&] {
    const test::Threads threads(1);
    return differentiate(kind(), call());
  }();
  for (const int count : {2, 3, 5}) {
    const test::Threads threads(count);
    const Results many = differentiate(kind(), call());
    EXPECT_EQ(bits(many.result.sequence), bits(one.result.sequence)) << count;
    EXPECT_EQ(bits(many.grad_gates), bits(one.grad_gates)) << count;
    EXPECT_EQ(bits(many.grad_hidden), bits(one.grad_hidden)) << count;
  }
}

TEST_P(RecurrentOps, PastItsEndASequenceIsZeroAndNotRead) {
  const Call given = call();
  const Results clean = differentiate(kind(), given);
  const Call dirty = call();
  for (std::int64_t n = 0; n < kBatch; ++n) {
    const std::int64_t length = given.options.lengths.data<std::int64_t>()[n];
    for (const Tensor& x : {clean.result.sequence, clean.grad_gates}) {
      const auto after = bits(slice(slice(x, 0, n, n + 1), 1, length, kSteps));
      EXPECT_THAT(after, testing::Each(0.0)) << n;
    }
    fill(slice(slice(dirty.gates, 0, n, n + 1), 1, length, kSteps), std::nan(""));
  }
  const Results results = differentiate(kind(), dirty);
  EXPECT_EQ(bits(results.result.sequence), bits(clean.result.sequence));
  EXPECT_EQ(bits(results.grad_weight), bits(clean.grad_weight));
  EXPECT_EQ(bits(results.grad_gates), bits(clean.grad_gates));
}

// A sequence without steps keeps its state, and passes its gradient on.
TEST_P(RecurrentOps, ASequenceWithoutStepsKeepsItsState) {
  const Call given = call();
  const Results results = differentiate(kind(), given);
  const auto row = [](const Tensor& x) { return bits(slice(x, 0, 3, 4)); };
  EXPECT_EQ(row(results.result.hidden), row(given.options.hidden));
  EXPECT_EQ(row(results.grad_hidden), row(given.options.hidden * 2.0));
}

TEST_P(RecurrentOps, AnInfiniteSequenceReachesNoOther) {
  const Call given = call();
  const Results clean = differentiate(kind(), given);
  const Call bad = call();
  fill(slice(bad.options.hidden, 0, 4, 5), std::numeric_limits<double>::infinity());
  const Results results = differentiate(kind(), bad);
  for (const std::int64_t n : {0, 1, 2, 3, 5, 6}) {
    const auto row = [&](const Tensor& x) { return bits(slice(x, 0, n, n + 1)); };
    EXPECT_EQ(row(results.result.sequence), row(clean.result.sequence)) << n;
    EXPECT_EQ(row(results.grad_gates), row(clean.grad_gates)) << n;
  }
  EXPECT_TRUE(std::isnan(bits(slice(results.result.sequence, 0, 4, 5))[0]));
}

double largest(const Tensor& x) {
  double result = 0;
  for (const double value : bits(x)) result = std::max(result, std::abs(value));
  return result;
}

void expect_close(const Tensor& a, const Tensor& b, double allowed, const char* what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  EXPECT_LE(largest(a.astype(DType::kF64) - b.astype(DType::kF64)),
            allowed * std::max(1.0, largest(b)))
      << what;
}

// The same sums in another order, and in 16 bits the same roundings of what is stored between
// operations. A step multiplies an error by less than the norm of a row of the weight, whose 37
// values are below 1, times 1/4, the slope of a sigmoid; weights of 1/8 make that about 1.
TEST_P(RecurrentOps, StepByStepGivesTheSame) {
  Call given = call();
  given.weights.weight = (given.weights.weight * 0.125).detach();
  const Results fused = differentiate(kind(), given);
  const StepByStep elementary;
  const Results steps = differentiate(kind(), given);
  const double unit = epsilon_of(dtype());
  const double allowed = 4 * kSteps * unit * (dtype() == DType::kF32 ? std::sqrt(kHidden) : 1);
  expect_close(steps.result.sequence, fused.result.sequence, allowed, "sequence");
  expect_close(steps.result.hidden, fused.result.hidden, allowed, "hidden");
  expect_close(steps.grad_gates, fused.grad_gates, 2 * allowed, "gradient of the gates");
  expect_close(steps.grad_weight, fused.grad_weight, 2 * allowed, "gradient of the weight");
  expect_close(steps.grad_hidden, fused.grad_hidden, 2 * allowed, "gradient of the state");
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentOps,
                         testing::Combine(testing::Values(0, 1),
                                          testing::Values(DType::kF32, DType::kBf16, DType::kF16),
                                          testing::Bool()),
                         [](const auto& test) {
                           return concat(kKinds[std::get<0>(test.param)].name, "_",
                                         std::get<1>(test.param),
                                         std::get<2>(test.param) ? "_reverse" : "");
                         });

// c grows by 2^-10 per step. A state of bf16, with 8 bits, would stop growing at 1/4.
TEST(Recurrent, SmallAdditionsToTheStateOf16BitsAreKept) {
  constexpr std::int64_t kMany = 1000;
  const Tensor gates = zeros({1, kMany, 4});
  auto* value = gates.mutable_data<float>();
  for (std::int64_t t = 0; t < kMany; ++t) {
    value[4 * t] = 30;                        // i = 1
    value[4 * t + 1] = 30;                    // f = 1
    value[4 * t + 2] = std::atanh(0x1p-10F);  // g
  }
  const Tensor weight = zeros({4, 1});
  const RecurrentResult exact = lstm(gates, {weight, {}});
  const RecurrentResult narrow =
      lstm(gates.astype(DType::kBf16), {weight.astype(DType::kBf16), {}});
  EXPECT_NEAR(exact.cell.item(), kMany * 0x1p-10, kMany * 0x1p-23);
  // 2^-10 itself is exact in bf16 but for the rounding of its atanh.
  EXPECT_NEAR(narrow.cell.item(), exact.cell.item(), exact.cell.item() * 0x1p-8);
}

// The same within a region, step by step: c and h approach 1 by 2^-10 of the distance per step.
TEST(Recurrent, StatesStayF32StepByStepInARegion) {
  constexpr std::int64_t kMany = 300;
  for (const Kind& kind : kKinds) {
    for (const DType dtype : kLowerDTypes) {
      SCOPED_TRACE(concat(kind.name, " in ", dtype));
      const Tensor gates = zeros({1, kMany, kind.gates});
      auto* value = gates.mutable_data<float>();
      for (std::int64_t t = 0; t < kMany; ++t, value += kind.gates) {
        value[0] = kind.has_cell ? std::log(0x1p-10F) : 0;  // i
        value[1] = 7;                                       // f or z: 1 - 2^-10
        value[2] = 30;                                      // g or n: 1
      }
      const Tensor narrow = gates.astype(dtype);
      const RecurrentWeights weights{zeros({kind.gates, 1}), {}};
      const amp::Autocast region(amp::Policy{.level = amp::Level::kO2, .lower = dtype});
      const RecurrentResult fused = kind.run(narrow, weights, {});
      const StepByStep elementary;
      const RecurrentResult steps = kind.run(narrow, weights, {});
      EXPECT_EQ(steps.sequence.dtype(), fused.sequence.dtype());
      EXPECT_EQ(steps.hidden.dtype(), DType::kF32);
      // Each step may round a sum, a product and two functions differently.
      const double allowed = 4 * kMany * epsilon_of(DType::kF32);
      EXPECT_NEAR(steps.hidden.item(), fused.hidden.item(), allowed);
      if (!kind.has_cell) continue;
      EXPECT_EQ(steps.cell.dtype(), DType::kF32);
      EXPECT_NEAR(steps.cell.item(), fused.cell.item(), allowed);
    }
  }
}

TEST(Recurrent, LengthsMayBe32Bits) {
  const Call call = make_call(kKinds[0], DType::kF32, false);
  RecurrentOptions options = call.options;
  options.lengths = options.lengths.astype(DType::kI32);
  EXPECT_EQ(bits(lstm(call.gates, call.weights, options).sequence),
            bits(lstm(call.gates, call.weights, call.options).sequence));
}

TEST(Recurrent, SaysWhatIsWrong) {
  const Call call = make_call(kKinds[1], DType::kF32, false);
  RecurrentOptions options{.cell = call.options.hidden};
  EXPECT_THAT(message_of<ArgumentError>([&] { gru(call.gates, call.weights, options); }),
              testing::HasSubstr("[gru] there is a cell state"));
  const StepByStep elementary;
  options = {.hidden = values({1, kHidden}, 1)};
  EXPECT_THAT(message_of<ArgumentError>([&] { gru(call.gates, call.weights, options); }),
              testing::HasSubstr("[gru] the initial hidden state must be f32[7, 37]"));
}

}  // namespace
}  // namespace mezzo

// Tests that activations and weights are counted by call, eagerly and in captured steps, and that
// counting changes nothing.
#include "mezzo/numbers/activation_statistics.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/report/verdict.h"
#include "tests/unit/numbers/faulty_nets.h"

namespace mezzo::numbers {
namespace {

using testing::Contains;
using testing::HasSubstr;

// A network, its training, and what is counted in it.
struct Counted {
  Counted(FaultyNet& network, bool is_captured, std::int64_t every = 1)
      : net(network),
        optimizer(net.parameters(), {.lr = 0.01}),
        statistics(net, {.every = every, .on_counted = [this](const auto&) { ++told; }}) {
    step.emplace(
        net, [](const Tensor& y, const Tensor& labels) { return cross_entropy(y, labels); },
        optimizer, amp::GradScaler({}, false), amp::TrainStepOptions{.observers = {&statistics}});
    if (is_captured) step->set_execution(graph::captured(net));
  }

  double run() { return (*step)(batch(), labels()).loss; }
  static Tensor batch() {
    Generator generator(2);
    return randn({6, 4}, generator);
  }
  static Tensor labels() { return from_values<std::int64_t>({0, 1, 2, 0, 1, 2}, {6}); }

  std::vector<std::string> verdict(DType dtype) const {
    report::RunData run{.dtype = dtype};
    run.steps.resize(static_cast<std::size_t>(statistics.counted_steps()));
    run.activations = statistics.total();
    run.weights = statistics.total_weights();
    run.counted_forward_passes = statistics.counted_steps();
    return report::verdict(run);
  }

  std::int64_t told = 0;
  FaultyNet& net;
  optim::Sgd optimizer;
  ActivationStatistics statistics;
  std::optional<amp::TrainStep> step;
};

const CallHistogram* find(const std::vector<CallHistogram>& calls, const std::string& name) {
  for (const CallHistogram& call : calls) {
    if (call.exponents.name == name) return &call;
  }
  return nullptr;
}

ExponentCounts counts_of(const Tensor& tensor) { return count_exponents({&tensor, 1}).front(); }

TEST(ActivationStatistics, CountTheResultOfEachForwardCallAndTheWeights) {
  FaultyNet net([](const Tensor& x) { return relu(x); });
  const Tensor hidden =
      linear(Counted::batch(), net.first_weight(), net.named_parameters()[1].tensor).detach();
  Counted counted(net, false);
  const ExponentCounts weights = counts_of(net.first_weight());
  counted.run();
  const std::vector<CallHistogram>& calls = counted.statistics.latest();
  ASSERT_EQ(calls.size(), 3) << "the loss and the backward pass are not counted";
  EXPECT_EQ(calls[0].exponents.name, "first: linear");
  EXPECT_EQ(calls[0].exponents.counts, counts_of(hidden));
  EXPECT_EQ(calls[0].exponents.shape, Shape({6, 8}));
  EXPECT_EQ(calls[1].exponents.name, "middle: relu");
  EXPECT_EQ(calls[1].exponents.counts, counts_of(relu(hidden)));
  EXPECT_EQ(calls[2].exponents.name, "last: linear");
  EXPECT_EQ(calls[2].dtype, DType::kF32);
  ASSERT_EQ(counted.statistics.latest_weights().size(), 4);
  EXPECT_EQ(counted.statistics.latest_weights()[0].name, "first.weight");
  EXPECT_EQ(counted.statistics.latest_weights()[0].counts, weights) << "before the update";
}

TEST(ActivationStatistics, CountEverySoManySteps) {
  FaultyNet net([](const Tensor& x) { return relu(x); });
  Counted counted(net, false, 3);
  for (int i = 0; i < 4; ++i) counted.run();
  EXPECT_EQ(counted.statistics.counted_steps(), 2);
  EXPECT_EQ(counted.told, 2);
  const CallHistogram& first = counted.statistics.total()[0];
  EXPECT_EQ(first.exponents.passes, 2);
  EXPECT_EQ(first.exponents.counts.total(), 2 * 6 * 8);
  EXPECT_EQ(counted.statistics.latest()[0].exponents.counts.total(), 6 * 8);
  EXPECT_EQ(counted.statistics.total_weights()[0].passes, 2);
  EXPECT_THROW(ActivationStatistics(net, {.every = 0}), ArgumentError);
}

TEST(ActivationStatistics, ACapturedStepHasTheSameCounts) {
  const auto middle = [](const Tensor& x) { return softmax(relu(x) * 3, -1); };
  FaultyNet net(middle);
  Counted eager(net, false);
  eager.run();
  FaultyNet again(middle);
  Counted captured(again, true);
  captured.run();
  ASSERT_GE(captured.statistics.latest().size(), 3);
  for (const CallHistogram& call : captured.statistics.latest()) {
    SCOPED_TRACE(call.exponents.name);
    const CallHistogram* same = find(eager.statistics.latest(), call.exponents.name);
    ASSERT_NE(same, nullptr);
    EXPECT_EQ(call.exponents.counts, same->exponents.counts);
    EXPECT_EQ(call.dtype, same->dtype);
  }
}

TEST(ActivationStatistics, CountingChangesNothing) {
  for (const bool is_captured : {false, true}) {
    FaultyNet net(same);
    FaultyNet other(same);
    Counted often(net, is_captured, 1);
    Counted rarely(other, is_captured, 100);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(often.run(), rarely.run()) << is_captured;
  }
}

TEST(ActivationStatistics, ModulesHaveTheSumsOfTheirCalls) {
  FaultyNet net([](const Tensor& x) { return relu(x) * 2; });
  Counted counted(net, false);
  counted.run();
  const auto modules = by_module(counted.statistics.total());
  ASSERT_EQ(modules.size(), 3);
  EXPECT_EQ(modules[1].name, "middle");
  EXPECT_EQ(modules[1].counts.total(), 2 * 6 * 8);
}

// What a branch of about that size computes. The matrix product keeps its factors in memory.
Apply::Function branch_of(double size) {
  return [size](const Tensor& x) {
    const Tensor small = x * size;
    return x + matmul(small, ones({8, 8}, x.dtype())) * 0.5;
  };
}

const CallHistogram* smallest_of(const std::vector<CallHistogram>& calls) {
  const CallHistogram* smallest = nullptr;
  for (const CallHistogram& call : calls) {
    if (call.id.path != "middle" || call.exponents.counts.finite_nonzero() == 0) continue;
    const bool is_smaller = smallest == nullptr ||
                            call.exponents.counts.largest() < smallest->exponents.counts.largest();
    if (is_smaller) smallest = &call;
  }
  return smallest;
}

class PlantedBranch : public testing::TestWithParam<bool> {};

TEST_P(PlantedBranch, IsNamedBeforeTheRunIsSwitchedToF16) {
  FaultyNet net(branch_of(1e-7));
  Counted counted(net, GetParam());
  counted.run();
  const CallHistogram* call = smallest_of(counted.statistics.total());
  ASSERT_NE(call, nullptr);
  const auto sentences = counted.verdict(DType::kF32);
  EXPECT_THAT(sentences, Contains(HasSubstr("f16 could not hold the results of ")));
  EXPECT_THAT(sentences, Contains(testing::AllOf(testing::StartsWith(call->exponents.name + ": "),
                                                 HasSubstr("where f16 keeps few bits or none"),
                                                 HasSubstr(" would become zero and "))));
  EXPECT_THAT(sentences, Contains(HasSubstr("has to keep in f32: --keep-f32 middle. ")));
  EXPECT_THAT(sentences, Contains(HasSubstr("bf16 can hold the results of all ")));
  EXPECT_THAT(sentences, Contains(testing::AllOf(HasSubstr("They may be lowered to f16"))));
}

TEST_P(PlantedBranch, IsNamedInARunInF16) {
  FaultyNet net(in(DType::kF16, branch_of(1e-7)));
  Counted counted(net, GetParam());
  counted.run();
  const auto sentences = counted.verdict(DType::kF16);
  EXPECT_THAT(sentences, Contains(HasSubstr("f16 spoils the results of ")));
  EXPECT_THAT(sentences, Contains(testing::AllOf(testing::StartsWith("middle: affine: "),
                                                 HasSubstr("where f16 keeps few bits"),
                                                 HasSubstr("are subnormal"))));
  EXPECT_THAT(sentences, Contains(HasSubstr("Keep in f32: --keep-f32 middle. ")));
}

TEST_P(PlantedBranch, IsNamedEvenIfF16HasLostAllOfIt) {
  FaultyNet net(in(DType::kF16, branch_of(1e-12)));
  Counted counted(net, GetParam());
  counted.run();
  EXPECT_THAT(counted.verdict(DType::kF16),
              Contains(testing::AllOf(testing::StartsWith("middle: affine: "),
                                      HasSubstr("all numbers are zero"))));
}

INSTANTIATE_TEST_SUITE_P(Both, PlantedBranch, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Captured" : "Eager";
});

TEST(CallHistogram, WhatAFormatCanHold) {
  const auto fits = [](const std::vector<float>& values, NumberFormat format) {
    const ExponentCounts counts =
        counts_of(from_values(values, {static_cast<std::int64_t>(values.size())}));
    return effect_of(counts, format).fits();
  };
  EXPECT_FALSE(fits({1, 65520}, NumberFormat::kF16)) << "one infinity is one too many";
  EXPECT_TRUE(fits({1, 65504}, NumberFormat::kF16));
  EXPECT_TRUE(fits({1, 1e-9F, 1e-9F, 1e-9F}, NumberFormat::kF16))
      << "small ones beside a large one";
  EXPECT_FALSE(fits({1e-7F, 1e-7F}, NumberFormat::kF16));
  EXPECT_TRUE(fits({1e-7F, 70'000}, NumberFormat::kBf16));
  EXPECT_FALSE(fits({1, 500}, NumberFormat::kE4m3));
  EXPECT_TRUE(fits({1, 500}, NumberFormat::kE5m2));
  EXPECT_TRUE(fits({0, 0}, NumberFormat::kE4m3));
  EXPECT_TRUE(fits({}, NumberFormat::kE4m3));
  const ExponentCounts large = counts_of(from_values<float>({1, 500, 480}, {3}));
  EXPECT_TRUE(effect_with_scale(large, NumberFormat::kE4m3).fits());
}

TEST(CallHistogram, WhatIsToBeKept) {
  EXPECT_EQ(name_to_keep({.path = "layer1.0", .op = "conv2d"}), "layer1.0");
  EXPECT_EQ(name_to_keep({.path = "", .op = "exp"}), "exp");
  EXPECT_EQ(name_to_keep({.path = "fc", .op = "cast"}), "fc");
  EXPECT_EQ(name_to_keep({.path = "", .op = "cast"}), "");
}

}  // namespace
}  // namespace mezzo::numbers

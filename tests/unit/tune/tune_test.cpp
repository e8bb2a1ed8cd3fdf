// Tests that tuning repairs networks that break in f16, and what it leaves as it was.
#include "mezzo/tune/tune.h"

#include <set>
#include <string>

#include <gmock/gmock.h>

#include "mezzo/ops/losses.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/tune/plan_watch.h"
#include "tests/unit/tune/broken_nets.h"

namespace mezzo::tune {
namespace {

Batch batch_for(std::int64_t examples, std::uint64_t seed) {
  Generator generator(seed);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < examples; ++i) labels.push_back(i % 3);
  return {.inputs = {randn({examples, 4}, generator)},
          .labels = {from_values<std::int64_t>(labels, {examples})}};
}

amp::LossFunction loss() {
  return [](const Tensor& y, const Tensor& labels) { return cross_entropy(y, labels); };
}

std::set<std::string> rows_in(const amp::PrecisionPlan& plan, DType dtype) {
  std::set<std::string> rows;
  for (const amp::PlanRow& row : plan.rows) {
    if (row.dtype == dtype) rows.insert(row.text());
  }
  return rows;
}

const ProvedSetting& setting(const TuneResult& result, const std::string& name) {
  const auto found = std::ranges::find(result.settings, name, &ProvedSetting::name);
  return found != result.settings.end() ? *found : throw ArgumentError("no setting " + name);
}

// Of networks this small, parameters take more memory than activations: the plan that was solved
// for need not be the best in the end.
const ProvedSetting& solved(const TuneResult& result) { return setting(result, "plan"); }

// Memory does not depend on how long anything takes.
TuneOptions options_without_times() {
  return {.candidates = {DType::kF32, DType::kF16},
          .objective = Objective::kMemory,
          .proof_steps = 1,
          .proof_rounds = 1};
}

// The operations that are left in f32 if everything else is to be in f16, whatever time and memory
// that takes, and the error is to be within the budget.
std::set<std::string> needed_in_f32(const TuneResult& result) {
  SolveProblem problem{.labels = 2};
  for (const MeasuredOperation& operation : result.operations) {
    const MeasuredChoice* f16 = operation.find({.dtype = DType::kF16});
    problem.operations.push_back(
        {{.possible = true, .cost = {.ms = 1}},
         {.possible = f16 != nullptr && f16->error.is_finite(),
          .cost = {.error_squared = f16 != nullptr ? f16->error_squared() : 0}}});
  }
  const Limits limits{.error_squared = result.error_budget * result.error_budget};
  const Solution solution = solve(problem, Objective::kTime, limits);
  std::set<std::string> rows;
  for (std::size_t i = 0; i < solution.labels.size(); ++i) {
    if (solution.labels[i] == 0) rows.insert(result.operations[i].operation.text());
  }
  return rows;
}

class Repairs : public testing::TestWithParam<std::size_t> {};

TEST_P(Repairs, WhatBreaksInF16) {
  const BrokenCase broken = broken_cases()[GetParam()];
  BrokenNet net(broken.one, broken.two);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
  amp::TrainStep step(net, loss(), optimizer, amp::GradScaler({}, false));
  const std::vector<Batch> batches{batch_for(16, 1), batch_for(16, 2)};
  TuneOptions options = options_without_times();
  options.error_budget = 0.01;
  const TuneResult result = amp::tune(step, batches, options);
  EXPECT_EQ(needed_in_f32(result), broken.in_f32);
  EXPECT_THAT(rows_in(solved(result).plan, DType::kF32), testing::IsSupersetOf(broken.in_f32));
  EXPECT_TRUE(solved(result).is_within);
  EXPECT_TRUE(result.settings[result.chosen].is_within);
  // O2 in f16 does break.
  EXPECT_FALSE(setting(result, "O2/f16").error.worst.error < 0.5);
  for (const amp::PlanRow& row : result.plan.rows) EXPECT_FALSE(row.reason.empty()) << row.text();
}

INSTANTIATE_TEST_SUITE_P(All, Repairs, testing::Range<std::size_t>(0, broken_cases().size()),
                         [](const auto& instance) { return broken_cases()[instance.param].name; });

TEST(Tune, LeavesTheStateOfTheStep) {
  BrokenNet net([](const Tensor& x) { return x * 2; }, [](const Tensor& x) { return x * 0.5; });
  optim::Adam optimizer(net.parameters(), {.lr = 0.01});
  amp::TrainStep step(net, loss(), optimizer, amp::GradScaler({.init_scale = 512}));
  step(batch_for(16, 5));
  std::vector<Tensor> before;
  for (const Tensor& parameter : net.parameters()) before.push_back(copy_of(parameter));
  for (const NamedTensor& state : optimizer.state()) before.push_back(copy_of(state.tensor));
  const RandomPosition random = default_generator().position();
  const TuneResult result = amp::tune(step, {batch_for(16, 1)}, options_without_times());
  std::vector<Tensor> after = net.parameters();
  for (const NamedTensor& state : optimizer.state()) after.push_back(state.tensor);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].to_vector<float>(), before[i].to_vector<float>()) << i;
  }
  EXPECT_EQ(default_generator().position(), random);
  EXPECT_EQ(step.scaler().get_scale(), 512);
  EXPECT_EQ(optimizer.updates(), 1);
}

// Nothing but times differs from run to run.
TEST(Tune, TwiceTheSame) {
  const auto run = [] {
    BrokenNet net([](const Tensor& x) { return exp(x); }, [](const Tensor& x) { return x * 0.5; });
    optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
    amp::TrainStep step(net, loss(), optimizer, amp::GradScaler({}, false));
    return amp::tune(step, {batch_for(16, 1)}, options_without_times());
  };
  const TuneResult a = run();
  const TuneResult b = run();
  ASSERT_EQ(a.plan.rows.size(), b.plan.rows.size());
  for (std::size_t i = 0; i < a.plan.rows.size(); ++i) {
    EXPECT_EQ(a.plan.rows[i].dtype, b.plan.rows[i].dtype);
    EXPECT_EQ(a.operations[i].choices.back().error.total,
              b.operations[i].choices.back().error.total);
  }
  EXPECT_EQ(a.error_budget, b.error_budget);
}

// The step goes on under the plan: its losses are those of another step with that plan.
TEST(Tune, TheStepGoesOnUnderThePlan) {
  for (const bool graph : {false, true}) {
    BrokenNet net([](const Tensor& x) { return exp(x * 0.1); },
                  [](const Tensor& x) { return x * 2; });
    optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
    amp::TrainStep step(net, loss(), optimizer, amp::GradScaler({}, false));
    TuneOptions options = options_without_times();
    options.graph = graph;
    const TuneResult result = amp::tune(step, {batch_for(16, 1)}, options);
    BrokenNet other([](const Tensor& x) { return exp(x * 0.1); },
                    [](const Tensor& x) { return x * 2; });
    amp::apply_plan(other, result.plan);
    optim::Sgd other_optimizer(other.parameters(), {.lr = 0.01});
    amp::TrainStep other_step(other, loss(), other_optimizer, amp::GradScaler({}, false));
    for (std::uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(step(batch_for(16, i)).loss, other_step(batch_for(16, i)).loss);
    }
  }
}

TEST(Tune, AGivenBudgetIsKept) {
  BrokenNet net([](const Tensor& x) { return x * 2; }, [](const Tensor& x) { return x * 0.5; });
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
  amp::TrainStep step(net, loss(), optimizer, amp::GradScaler({}, false));
  TuneOptions options = options_without_times();
  options.candidates = {DType::kBf16, DType::kF16};
  options.error_budget = 2e-3;
  const TuneResult result = amp::tune(step, {batch_for(16, 1)}, options);
  EXPECT_LE(result.plan.error, 2e-3);
  EXPECT_EQ(result.budget_from, "given");
  EXPECT_EQ(result.plan.count(DType::kBf16), 0);
}

// What the watch of a plan compares with.
TEST(Tune, APlanKnowsHowMuchIsTooSmall) {
  BrokenNet net([](const Tensor& x) { return x * 1e-5; }, [](const Tensor& x) { return x * 1e5; });
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
  amp::TrainStep step(net, loss(), optimizer, amp::GradScaler({}, false));
  amp::PrecisionPlan plan;
  for (const auto& [module, op] :
       {std::pair("first", "linear"), std::pair("one", "affine"), std::pair("two", "affine")}) {
    plan.rows.push_back({.module = module, .op = op, .dtype = DType::kF16});
  }
  amp::apply_plan(net, plan);
  PlanWatch watch(plan, 1);
  step.probe(batch_for(16, 1), 1, watch);
  const amp::PrecisionPlan counted = watch.with_shares(plan);
  EXPECT_EQ(counted.rows[0].lost, 0);
  EXPECT_GT(counted.rows[1].lost, 0.5);  // 1e-5 is below f16's normal numbers
  EXPECT_EQ(counted.rows[1].overflowed, 0);
}

std::string error_of_tuning(const TuneOptions& options, std::size_t batches = 1) {
  BrokenNet net([](const Tensor& x) { return x; }, [](const Tensor& x) { return x; });
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
  amp::TrainStep step(net, loss(), optimizer, amp::GradScaler({}, false));
  try {
    amp::tune(step, std::vector<Batch>(batches, batch_for(16, 1)), options);
    return "";
  } catch (const ArgumentError& error) {
    return error.what();
  }
}

// Of the broken nets' operations only the linear layers can have eight bits.
TEST(Tune, ProductsMayHaveEightBits) {
  for (const Scaling scaling : {Scaling::kCurrent, Scaling::kRows, Scaling::kMxfp8}) {
    BrokenNet net([](const Tensor& x) { return x; }, [](const Tensor& x) { return x; });
    optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
    amp::TrainStep step(net, loss(), optimizer, amp::GradScaler({}, false));
    TuneOptions options = options_without_times();
    options.candidates = {DType::kBf16, DType::kE4m3};
    options.scaling = scaling;
    options.error_budget = 10;
    const TuneResult result = amp::tune(step, {batch_for(64, 1)}, options);
    std::size_t products = 0;
    for (const MeasuredOperation& operation : result.operations) {
      const MeasuredChoice* eight = operation.find({.dtype = DType::kE4m3});
      const bool is_linear = operation.operation.op->name == std::string_view("linear");
      EXPECT_EQ(eight != nullptr, is_linear) << operation.operation.text();
      if (eight == nullptr) continue;
      ++products;
      const MeasuredChoice* sixteen = operation.find({.dtype = DType::kBf16});
      EXPECT_TRUE(eight->error.is_finite());
      EXPECT_GT(eight->error.total, sixteen->error.total) << operation.operation.text();
      EXPECT_GT(eight->ms, 0);
    }
    EXPECT_GE(products, 2);
    EXPECT_FALSE(rows_in(setting(result, "O2/e4m3").plan, DType::kE4m3).empty());
    EXPECT_EQ(setting(result, "O2/e4m3").plan.scaling, scaling);
  }
}

TEST(Tune, SaysWhatIsWrong) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of_tuning({}, 0), HasSubstr("[tune] there is no batch"));
  EXPECT_THAT(error_of_tuning({.candidates = {DType::kF32}}),
              HasSubstr("[tune] there is no 16-bit candidate"));
  EXPECT_THAT(error_of_tuning({.scaling = Scaling::kDelayed}),
              HasSubstr("[tune] delayed scales are those of earlier steps"));
  EXPECT_THAT(error_of_tuning({.candidates = {DType::kE4m3}}),
              HasSubstr("[tune] there is no 16-bit candidate"));
  EXPECT_THAT(error_of_tuning({.candidates = {DType::kF64}}),
              HasSubstr("[tune] an operation cannot be planned in f64"));
  TuneOptions options = options_without_times();
  options.error_budget = 0;
  EXPECT_THAT(error_of_tuning(options), HasSubstr("[tune] the error budget must be above 0: 0"));
  options.error_budget.reset();
  options.memory_budget = 1;
  EXPECT_THAT(error_of_tuning(options), HasSubstr("[tune] no plan is within the budgets"));
}

}  // namespace
}  // namespace mezzo::tune

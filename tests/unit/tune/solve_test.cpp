// Tests the solver against all labellings of small problems.
#include "mezzo/tune/solve.h"

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/tune/min_cut.h"

namespace mezzo::tune {
namespace {

// Repeatable numbers from 0 to 1.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  double next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state_ >> 11U) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

// A chain of operations with some shortcuts, as of a residual network.
SolveProblem problem_from(std::uint64_t seed, std::size_t operations, std::size_t labels) {
  Numbers numbers(seed);
  SolveProblem problem{.labels = labels};
  for (std::size_t i = 0; i < operations; ++i) {
    std::vector<SolveProblem::Option> options;
    for (std::size_t label = 0; label < labels; ++label) {
      const bool is_possible = label == 0 || numbers.next() < 0.8;
      options.push_back({.possible = is_possible,
                         .cost = {.ms = 1 + numbers.next(),
                                  .bytes = label == 0 ? 4.0 : 2.0,
                                  .error_squared = label == 0 ? 0 : numbers.next()}});
    }
    problem.operations.push_back(std::move(options));
    for (const std::size_t back : {1U, 3U}) {
      if (i < back || (back == 3 && numbers.next() < 0.5)) continue;
      const double price = 0.5 * numbers.next();
      std::vector<std::vector<Cost>> cost(labels, std::vector<Cost>(labels));
      for (std::size_t a = 0; a < labels; ++a) {
        for (std::size_t b = 0; b < labels; ++b) {
          if (a != b) cost[a][b] = {.ms = price, .bytes = price};
        }
      }
      problem.links.push_back({.maker = i - back, .reader = i, .cost = cost});
    }
  }
  return problem;
}

// The best of all labellings.
Solution brute_force(const SolveProblem& problem, Objective objective, const Limits& limits) {
  Solution best;
  std::vector<std::size_t> labels(problem.operations.size());
  for (bool goes_on = true; goes_on;) {
    bool is_possible = true;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      is_possible = is_possible && problem.operations[i][labels[i]].possible;
    }
    const Solution solution{.labels = labels, .cost = cost_of(problem, labels)};
    const auto value = [&](const Solution& s) {
      return objective == Objective::kTime ? s.cost.ms : s.cost.bytes;
    };
    if (is_possible && solution.is_within(limits) &&
        (best.labels.empty() || value(solution) < value(best))) {
      best = solution;
    }
    goes_on = false;
    for (std::size_t i = 0; i < labels.size() && !goes_on; ++i) {
      goes_on = ++labels[i] < problem.labels;
      if (!goes_on) labels[i] = 0;
    }
  }
  return best;
}

TEST(MinCut, FindsTheCheaperSide) {
  MinCut cut(3);
  cut.add_costs(0, 0, 10);  // belongs to the source
  cut.add_costs(2, 10, 0);  // belongs to the sink
  cut.add_costs(1, 3, 2);   // alone, to the sink
  cut.add_edge(0, 1, 4);    // but to be apart from 0 costs more
  cut.solve();
  EXPECT_FALSE(cut.is_on_sink_side(0));
  EXPECT_FALSE(cut.is_on_sink_side(1));
  EXPECT_TRUE(cut.is_on_sink_side(2));
}

// Without limits there is no price, and for two labels one cut is exact.
TEST(Solve, TwoLabelsWithoutLimitsAreExact) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const SolveProblem problem = problem_from(seed, 10, 2);
    const Solution found = solve(problem, Objective::kTime, {});
    EXPECT_NEAR(found.cost.ms, brute_force(problem, Objective::kTime, {}).cost.ms, 1e-9) << seed;
  }
}

TEST(Solve, ThreeLabelsWithinAnErrorAreNearlyTheBest) {
  double worst = 0;
  double sum = 0;
  constexpr std::uint64_t kProblems = 40;
  for (std::uint64_t seed = 1; seed <= kProblems; ++seed) {
    const SolveProblem problem = problem_from(seed, 8, 3);
    const Limits limits{.error_squared = 1.5};
    const Solution found = solve(problem, Objective::kTime, limits);
    ASSERT_TRUE(found.is_within(limits)) << seed;
    for (std::size_t i = 0; i < found.labels.size(); ++i) {
      EXPECT_TRUE(problem.operations[i][found.labels[i]].possible);
    }
    const double ratio = found.cost.ms / brute_force(problem, Objective::kTime, limits).cost.ms;
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  // Prices alone find plans on the convex hull, and single changes some of those between.
  EXPECT_LE(worst, 1.06);
  EXPECT_LE(sum / kProblems, 1.01);
}

TEST(Solve, TheLeastMemoryWithinAnError) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const SolveProblem problem = problem_from(seed, 8, 2);
    const Limits limits{.error_squared = 1};
    const Solution found = solve(problem, Objective::kMemory, limits);
    ASSERT_TRUE(found.is_within(limits));
    const Solution best = brute_force(problem, Objective::kMemory, limits);
    EXPECT_LE(found.cost.bytes, best.cost.bytes * 1.1) << seed;
  }
}

TEST(Solve, TheLeastTimeWithinAMemory) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const SolveProblem problem = problem_from(seed, 8, 2);
    const Limits limits{.bytes = 24};
    const Solution best = brute_force(problem, Objective::kTime, limits);
    if (best.labels.empty()) continue;
    const Solution found = solve(problem, Objective::kTime, limits);
    ASSERT_TRUE(found.is_within(limits)) << seed;
    EXPECT_LE(found.cost.ms, best.cost.ms * 1.06) << seed;
  }
}

// f32 has no error: it remains where nothing else is allowed.
TEST(Solve, NoErrorIsAllowed) {
  const SolveProblem problem = problem_from(3, 8, 3);
  const Solution found = solve(problem, Objective::kTime, {.error_squared = 0});
  EXPECT_EQ(found.labels, std::vector<std::size_t>(8, 0));
}

}  // namespace
}  // namespace mezzo::tune

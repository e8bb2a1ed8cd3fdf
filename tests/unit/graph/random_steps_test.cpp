// Compares random steps, captured and optimised, with the same steps run eagerly.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "tests/unit/graph/fake_recorder.h"
#include "tests/unit/graph/random_step.h"

namespace mezzo::graph {
namespace {

constexpr std::uint64_t kSteps = 100;  // steps per test
constexpr std::uint64_t kRuns = 4;     // per step; recordings begin with the third

using Numbers = std::vector<std::vector<double>>;

Numbers numbers_of(const std::vector<Tensor>& tensors) {
  Numbers all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.to_vector<double>());
  return all;
}

// The outcome of a training: the results of each run, read after the last, and the state.
struct Trained {
  std::vector<Numbers> results{};
  Numbers state{};
};

template <class Run>
Trained train(const RandomStep& step, Run&& run) {
  manual_seed(5);
  std::vector<std::vector<Tensor>> results;
  for (std::uint64_t i = 0; i < kRuns; ++i) {
    const std::vector<Tensor> batch = RandomStep::batch(i);
    results.push_back(run(batch));
  }
  Trained trained;
  for (const auto& tensors : results) trained.results.push_back(numbers_of(tensors));
  trained.state = numbers_of(step.state());
  return trained;
}

Trained train_eagerly(const RandomStepOptions& options) {
  RandomStep step(options);
  return train(step, [&](std::span<const Tensor> batch) { return step(batch); });
}

Trained train_compiled(const RandomStepOptions& options, const CompileOptions& how) {
  RandomStep step(options);
  CompiledStep compiled = compile([&](std::span<const Tensor> batch) { return step(batch); }, how);
  return train(step, [&](std::span<const Tensor> batch) { return compiled(batch); });
}

// The largest difference relative to the largest element of a tensor; infinite where only one of
// them is finite.
double difference(const Numbers& a, const Numbers& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double worst = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k].size() != b[k].size()) return HUGE_VAL;
    double largest = 1e-3;
    double apart = 0;
    for (std::size_t i = 0; i < a[k].size(); ++i) {
      const double x = a[k][i];
      const double y = b[k][i];
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (!std::isfinite(x) || !std::isfinite(y)) return HUGE_VAL;
      apart = std::max(apart, std::abs(x - y));
    }
    for (const double x : a[k]) {
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    }
    worst = std::max(worst, apart / largest);
  }
  return worst;
}

double difference(const Trained& a, const Trained& b) {
  double worst = difference(a.state, b.state);
  for (std::size_t i = 0; i < kRuns; ++i) {
    worst = std::max(worst, difference(a.results[i], b.results[i]));
  }
  return worst;
}

// The worst difference of the first run: later ones start from parameters that already differ.
double first_difference(const Trained& a, const Trained& b) {
  return difference(a.results[0], b.results[0]);
}

std::string name_of(const RandomStepOptions& options) {
  return concat("seed ", options.seed, options.mixed ? ", mixed" : "");
}

TEST(RandomSteps, HaveTheBitsOfEagerOnes) {
  // Passes that round in other places are left out.
  const CompileOptions exact{
      .passes = {.disabled = {"paint_precision", "fuse_norm", "fuse_bias", "fuse_cross_entropy"}}};
  for (const bool mixed : {false, true}) {
    for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
      const RandomStepOptions options{.seed = seed, .mixed = mixed};
      EXPECT_EQ(difference(train_compiled(options, exact), train_eagerly(options)), 0)
          << name_of(options);
    }
  }
}

TEST(RandomSteps, HaveTheSameBitsRecordedOrNot) {
  for (const bool mixed : {false, true}) {
    for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
      const RandomStepOptions options{.seed = seed, .mixed = mixed};
      RecorderLog log;
      const CompileOptions recorded{.record = recorded_in(log)};
      EXPECT_EQ(difference(train_compiled(options, recorded), train_compiled(options, {})), 0)
          << name_of(options);
      EXPECT_GT(log.launches, 0) << name_of(options);
    }
  }
}

// f32 rounding errors hardly exceed 2^-18 of a tensor's largest element. Half of the digits must
// remain where a sum happens to cancel.
TEST(RandomSteps, KeepTheirResultsWithAllPasses) {
  for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
    const RandomStepOptions options{.seed = seed};
    EXPECT_LE(first_difference(train_compiled(options, {}), train_eagerly(options)), 0x1p-12)
        << name_of(options);
  }
}

// A painted step may round in other places than regions do, but is as close to f32. Most steps are
// exactly as close; now and then an additional rounding flips a decision.
TEST(RandomSteps, AreAsExactPaintedAsInRegions) {
  for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
    RandomStepOptions options{.seed = seed, .mixed = true};
    const Trained painted = train_compiled(options, {});
    const Trained eager = train_eagerly(options);
    options.widened = true;
    const Trained wide = train_eagerly(options);
    EXPECT_LE(first_difference(painted, wide), std::max(4 * first_difference(eager, wide), 0x1p-8))
        << name_of(options);
  }
}

}  // namespace
}  // namespace mezzo::graph

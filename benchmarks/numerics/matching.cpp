// Micikevicius et al., "Mixed precision training", ICLR 2018; Kalamkar et al., "A study of BFLOAT16
// for deep learning training", 2019.
#include <cmath>

#include "benchmarks/numerics/experiments.h"
#include "benchmarks/numerics/training.h"

namespace numerics {

using namespace mezzo;  // NOLINT(google-build-using-namespace): a program, not a header

namespace {

constexpr int kSeeds = 3;

double mean_accuracy(const train::DataPair& data, Recipe recipe) {
  double sum = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    recipe.seed = static_cast<std::uint64_t>(seed);
    sum += trained_cnn(data, recipe);
  }
  return sum / kSeeds;
}

}  // namespace

void run_matching(const train::DataPair& data, Table& table) {
  const char* name = "1 matching";
  const double f32 = mean_accuracy(data, {.epochs = 2});
  const double bf16 = mean_accuracy(data, {.policy = computing_in(DType::kBf16), .epochs = 2});
  const double f16 = mean_accuracy(
      data, {.policy = computing_in(DType::kF16), .scaling = Scaling::kDynamic, .epochs = 2});
  table.add(at_least(name, "f32, mean of 3 seeds", f32, 80, "%"));
  const auto add = [&](const char* what, double accuracy) {
    table.add(at_most(name, concat(what, " (", fixed(accuracy, 2), " %), distance to f32"),
                      std::abs(accuracy - f32), 0.5, "points"));
  };
  add("bf16", bf16);
  add("f16 with dynamic scaling", f16);
}

}  // namespace numerics

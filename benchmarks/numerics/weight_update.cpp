// Zamirai et al., "Revisiting BFloat16 training", 2020.
#include <cmath>

#include "benchmarks/numerics/experiments.h"
#include "benchmarks/numerics/training.h"

namespace numerics {

using namespace mezzo;  // NOLINT(google-build-using-namespace): a program, not a header

namespace {

double trained_mlp(const train::DataPair& data, std::optional<ParamUpdate> bf16_update) {
  const auto net = make<Mlp>(data, 1);
  Recipe recipe{.lr = 1e-3, .momentum = 0, .epochs = 3};
  if (bf16_update.has_value()) {
    amp::half_parameters(*net, DType::kBf16);
    recipe.param_update = *bf16_update;
  }
  train(*net, *data.train, recipe);
  return percent_right(*net, data, recipe.policy);
}

}  // namespace

void run_weight_update(const train::DataPair& data, Table& table) {
  const char* name = "5 weight update";
  const double f32 = trained_mlp(data, std::nullopt);
  table.add(at_least(name, "f32 parameters", f32, 60, "%"));
  const auto add = [&](const char* what, ParamUpdate update) {
    const double accuracy = trained_mlp(data, update);
    table.add(at_most(name,
                      concat("bf16, ", what, " (", fixed(accuracy, 2), " %), distance to f32"),
                      std::abs(accuracy - f32), 0.5, "points"));
  };
  add("f32 master", ParamUpdate::kMaster);
  add("Kahan", ParamUpdate::kKahan);
  add("stochastic", ParamUpdate::kStochastic);
  const double nearest = trained_mlp(data, ParamUpdate::kNearest);
  table.add(at_least(name, concat("bf16, nearest (", fixed(nearest, 2), " %), loss to f32"),
                     f32 - nearest, 15, "points"));
}

}  // namespace numerics

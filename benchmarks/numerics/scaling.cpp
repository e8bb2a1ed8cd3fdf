#include "benchmarks/numerics/experiments.h"
#include "benchmarks/numerics/training.h"

namespace numerics {

using namespace mezzo;  // NOLINT(google-build-using-namespace): a program, not a header

void run_scaling(const train::DataPair& data, Table& table) {
  const char* name = "3 scaling";
  constexpr double kWeight = 0x1p-16;
  const amp::Policy in_f16 = computing_in(DType::kF16);
  const double plain = trained_cnn(data, {});
  const double weighted = trained_cnn(data, {.loss_weight = kWeight});
  const double unscaled =
      trained_cnn(data, {.policy = in_f16, .scaling = Scaling::kStatic, .loss_weight = kWeight});
  const double dynamic =
      trained_cnn(data, {.policy = in_f16, .scaling = Scaling::kDynamic, .loss_weight = kWeight});
  const auto accuracy = [](const char* what, double value) {
    return concat(what, " (", fixed(value, 2), " %)");
  };
  table.add(between(name, accuracy("f32, loss weight 2^-16", weighted) + ", gain over weight 1",
                    weighted - plain, {0, 0}, "points"));
  table.add(at_least(name, accuracy("f16 at scale 1", unscaled) + ", loss to f32",
                     weighted - unscaled, 15, "points"));
  table.add(at_most(name, accuracy("f16 with dynamic scaling", dynamic) + ", loss to f32",
                    weighted - dynamic, 1.5, "points"));
}

}  // namespace numerics

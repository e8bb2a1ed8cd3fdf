#include <bit>

#include "benchmarks/numerics/experiments.h"
#include "benchmarks/numerics/training.h"

namespace numerics {

using namespace mezzo;  // NOLINT(google-build-using-namespace): a program, not a header

namespace {

constexpr std::int64_t kSteps = 200;

std::vector<Tensor> parameters_after(const train::DataPair& data, Recipe recipe) {
  recipe.steps = kSteps;
  const auto net = make<Cnn>(data, 1);
  train(*net, *data.train, recipe);
  return net->parameters();
}

// The number of elements that differ in any bit between the two lists.
double different(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float* x = a[i].data<float>();
    const float* y = b[i].data<float>();
    for (std::int64_t k = 0; k < a[i].numel(); ++k) {
      count += std::bit_cast<std::uint32_t>(x[k]) != std::bit_cast<std::uint32_t>(y[k]) ? 1 : 0;
    }
  }
  return static_cast<double>(count);
}

}  // namespace

void run_exact(const train::DataPair& data, Table& table) {
  const char* name = "4 exact";
  const amp::Policy in_f16 = computing_in(DType::kF16);
  const auto f32 = parameters_after(data, {});
  const auto f32_weighted = parameters_after(data, {.loss_weight = 0x1p-16});
  const auto f16 = parameters_after(data, {.policy = in_f16, .scaling = Scaling::kStatic});
  const auto f16_weighted = parameters_after(
      data,
      {.policy = in_f16, .scaling = Scaling::kStatic, .scale = 0x1p12, .loss_weight = 0x1p-12});
  std::int64_t total = 0;
  for (const Tensor& parameter : f32) total += parameter.numel();
  table.add(between(name,
                    concat("f32, loss weight 2^-16: parameters of ", total, " that differ after ",
                           kSteps, " steps"),
                    different(f32, f32_weighted), {0, 0}, ""));
  table.add(between(name, "f16, loss weight 2^-12 and scale 2^12: the same",
                    different(f16, f16_weighted), {0, 0}, ""));
  table.add(at_least(name, "f32 against f16: the same", different(f32, f16), 1, ""));
}

}  // namespace numerics

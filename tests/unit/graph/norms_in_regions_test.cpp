// Functions that widen 16-bit values inside make the same calls in both captures of a compiled
// step.
#include <functional>

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/norm.h"

namespace mezzo::graph {
namespace {

TEST(NormsInRegions, OfProductsAreThoseOfEagerMode) {
  const std::function<Tensor(const Tensor&)> functions[] = {
      [](const Tensor& x) { return var(x); }, [](const Tensor& x) { return mezzo::std(x); },
      [](const Tensor& x) { return normalize(x); }, [](const Tensor& x) { return norm(x, 1); }};
  manual_seed(2);
  const Tensor inputs[] = {randn({3, 4}), randn({4, 5})};
  for (const auto& function : functions) {
    const auto body = [&](std::span<const Tensor> in) {
      const amp::Autocast region({.level = amp::Level::kO2, .lower = DType::kBf16});
      return std::vector<Tensor>{function(matmul(in[0], in[1]))};
    };
    CompiledStep step = compile(body);
    EXPECT_EQ(step(inputs)[0].to_vector<double>(), body(inputs)[0].to_vector<double>());
  }
}

}  // namespace
}  // namespace mezzo::graph

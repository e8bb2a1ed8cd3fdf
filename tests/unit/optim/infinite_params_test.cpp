// Tests the effect of a step on parameters that are not finite.
#include <limits>
#include <memory>

#include "mezzo/ops/cast.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

// Whole vectors and a partial one, for any instruction set.
constexpr std::int64_t kSize = 35;

template <class Optimizer, class Options>
void expect_infinities_to_stay(const Options& options, DType dtype) {
  SCOPED_TRACE(name_of(dtype));
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double value : {infinity, -infinity}) {
    const Tensor param = cast(full({kSize}, value), dtype).set_requires_grad(true);
    Optimizer optimizer({param}, options);
    for (int step = 0; step < 2; ++step) {
      param.set_grad(gradient({kSize}, step));
      optimizer.step();
      EXPECT_THAT(param.to_vector<double>(), testing::Each(value));
    }
  }
}

// As in PyTorch, which then skips the decay: 0 times infinity would be NaN.
TEST(InfiniteParams, StayInfiniteWithoutWeightDecay) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    expect_infinities_to_stay<Sgd>(SgdOptions{.lr = 0.1}, dtype);
    expect_infinities_to_stay<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9}, dtype);
    expect_infinities_to_stay<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}, dtype);
    expect_infinities_to_stay<Adam>(AdamOptions{}, dtype);
    expect_infinities_to_stay<AdamW>(AdamWOptions{.weight_decay = 0}, dtype);
    expect_infinities_to_stay<AdamW>(AdamWOptions{.weight_decay = 0.1}, dtype);
  }
}

}  // namespace
}  // namespace mezzo::optim

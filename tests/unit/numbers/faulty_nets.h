// Networks with one planted fault each, as users have reported them.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "mezzo/amp/policy.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module.h"
#include "mezzo/numbers/overflow_cause.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"

namespace mezzo::numbers {

// A function as a module, so that its calls have a path.
class Apply final : public nn::Module {
 public:
  using Function = std::function<Tensor(const Tensor&)>;
  explicit Apply(Function function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  Function function_;
};

// `first`, a linear layer of [n, 4] to [n, 8], then `middle`, and `last`, a linear layer to 3
// classes.
class FaultyNet final : public nn::Module {
 public:
  explicit FaultyNet(Apply::Function middle) : middle_(std::move(middle)) {
    add("first", first_);
    add("middle", middle_);
    add("last", last_);
    Generator generator(4);
    for (const Tensor& parameter : parameters()) {
      copy_elements(randn(parameter.shape(), generator) * 0.3, parameter);
    }
  }
  Tensor forward(const Tensor& x) override { return last_(middle_(first_(x))); }
  const Tensor& first_weight() const { return *first_.own_parameters()[0].tensor; }

 private:
  nn::Linear first_{4, 8};
  Apply middle_;
  nn::Linear last_{8, 3};
};

// What goes wrong, and what is to be said of it.
struct Fault {
  std::string name{};
  Apply::Function middle{};
  DType dtype = DType::kF16;
  float first_element = 0.5F;  // of the batch
  double first_weight = 0.25;  // the first element of first.weight
  double lr = 0.01;
  std::string path{};
  std::string op{};  // the beginning of its name
  bool is_backward = false;
  OverflowKind kind = OverflowKind::kRange;
  std::string says{};  // a part of the line
};

inline Tensor same(const Tensor& x) { return x; }

// In 16 bits, whatever the rules of operations say: a network that computes in 16 bits by itself.
inline Apply::Function in(DType dtype, Apply::Function function) {
  return [dtype, function = std::move(function)](const Tensor& x) {
    return function(x.astype(dtype)).astype(DType::kF32);
  };
}

inline std::vector<Fault> faults() {
  constexpr DType f16 = DType::kF16;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<Fault> all;
  all.push_back({.name = "ExpOf12",
                 .middle = in(f16, [](const Tensor& x) { return exp(x * 0 + 12) * 1e-6; }),
                 .path = "middle",
                 .op = "exp",
                 .kind = OverflowKind::kRange,
                 .says = "--keep-f32 middle"});
  all.push_back({.name = "VarianceOf1e9",
                 .middle = in(f16,
                              [](const Tensor& x) {
                                const Tensor wide = x * 0 + 3e4;
                                return x + mean(wide * wide, {1}, true) * 1e-9;
                              }),
                 .path = "middle",
                 .op = "mul",
                 .kind = OverflowKind::kRange,
                 .says = "65504"});
  all.push_back({.name = "MaskOfMinus1e9",
                 .middle = in(f16,
                              [](const Tensor& x) {
                                // A softmax written out, of rows that are masked as a whole.
                                const Tensor masked = x + ones(x.shape(), DType::kF16) * -1e9;
                                const Tensor powers = exp(masked - max(masked, {-1}, true));
                                return powers / sum(powers, {-1}, true);
                              }),
                 .path = "middle",
                 .op = "affine",
                 .kind = OverflowKind::kRange,
                 .says = "--keep-f32 middle"});
  all.push_back({.name = "SqrtAtZero",
                 .middle = [](const Tensor& x) { return sqrt(x * 0) + x; },
                 .dtype = DType::kF32,
                 .path = "middle",
                 .op = "",
                 .is_backward = true,
                 .kind = OverflowKind::kUndefined,
                 .says = "before the root"});
  all.push_back({.name = "SumOver70000",
                 .middle = in(f16,
                              [](const Tensor& x) {
                                const Tensor many = ones({70'000}, DType::kF16);
                                return x + sum(many) * 1e-6;
                              }),
                 .path = "middle",
                 .op = "sum",
                 .kind = OverflowKind::kRange,
                 .says = "f16[70000] all 1"});
  all.push_back({.name = "BadBatch",
                 .middle = same,
                 .dtype = DType::kF32,
                 .first_element = std::nanf(""),
                 .path = "first",
                 .op = "linear",
                 .kind = OverflowKind::kBatch,
                 .says = "input 0"});
  all.push_back({.name = "LearningRateTooLarge",
                 .middle = [](const Tensor& x) { return x * x; },
                 .dtype = DType::kF32,
                 .lr = 1e6,
                 .path = "",
                 .op = "",
                 .kind = OverflowKind::kGrownWeights,
                 .says = "learning rate"});
  all.push_back({.name = "InfiniteWeight",
                 .middle = same,
                 .dtype = DType::kF32,
                 .first_weight = kInf,
                 .path = "first",
                 .op = "linear",
                 .kind = OverflowKind::kWeight,
                 .says = "first.weight"});
  return all;
}

}  // namespace mezzo::numbers

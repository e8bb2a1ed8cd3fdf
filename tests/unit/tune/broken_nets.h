// Networks that break in f16, each by one thing that users have reported.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"

namespace mezzo::tune {

// A function as a module, so that its calls have a path.
class AppliedFunction final : public nn::Module {
 public:
  using Function = std::function<Tensor(const Tensor&)>;
  explicit AppliedFunction(Function function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  Function function_;
};

// `first`, a linear layer of [n, 4] to [n, 32], then `one` and `two`, and `last`, a linear layer to
// 3 classes; and what `one` and `two` make of the first is added to it.
class BrokenNet final : public nn::Module {
 public:
  BrokenNet(AppliedFunction::Function one, AppliedFunction::Function two)
      : one_(std::move(one)), two_(std::move(two)) {
    add("first", first_);
    add("branch", branch_);
    add("one", one_);
    add("two", two_);
    add("join", join_);
    add("last", last_);
    Generator generator(4);
    for (const Tensor& parameter : parameters()) {
      copy_elements(randn(parameter.shape(), generator) * 0.3, parameter);
    }
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = first_(x);
    return last_(join_(nn::Tensors{y, two_(one_(branch_(y)))}).front());
  }

 private:
  class Join final : public nn::Module {
   public:
    nn::Tensors forward_all(const nn::Tensors& inputs) override { return {inputs[0] + inputs[1]}; }
  };

  nn::Linear first_{4, 32};
  nn::Linear branch_{32, 32};
  AppliedFunction one_;
  AppliedFunction two_;
  Join join_;
  nn::Linear last_{32, 3};
};

struct BrokenCase {
  std::string name{};
  AppliedFunction::Function one{};
  AppliedFunction::Function two{};
  // The operations that must not be in f16.
  std::set<std::string> in_f32{};
};

inline std::vector<BrokenCase> broken_cases() {
  std::vector<BrokenCase> cases;
  // e^12 is 162755.
  cases.push_back({.name = "ExpOfLargeNumbers",
                   .one = [](const Tensor& x) { return exp(x * 0.01 + 12); },
                   .two = [](const Tensor& x) { return x * 1e-6; },
                   .in_f32 = {"one: exp", "two: affine"}});
  // Its gradient is below f16's smallest number, whatever the loss scale.
  cases.push_back({.name = "ATinyBranch",
                   .one = [](const Tensor& x) { return x * 1e-5; },
                   .two = [](const Tensor& x) { return x * 1e-6; },
                   .in_f32 = {"branch: linear", "one: affine"}});
  cases.push_back({.name = "AnActivationOf70000",
                   .one = [](const Tensor& x) { return x * 0.1 + 70'000; },
                   .two = [](const Tensor& x) { return x * 1e-5; },
                   .in_f32 = {"one: affine", "two: affine"}});
  cases.push_back({.name = "ADeepSum",
                   .one = [](const Tensor& x) { return x + sum(ones({70'000}) + sum(x * 1e-6)); },
                   .two = [](const Tensor& x) { return x * 1e-5; },
                   .in_f32 = {"one: add", "one: sum", "two: affine"}});
  return cases;
}

}  // namespace mezzo::tune

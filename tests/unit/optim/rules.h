// Shared by the optimizer tests: parameters, gradients that differ between steps, and comparison
// with rules computed in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/tensor.h"
#include "mezzo/optim/optimizer.h"
#include "tests/unit/message_of.h"
#include "tests/unit/threads.h"

namespace mezzo::optim {

using Doubles = std::vector<double>;

inline Tensor parameter(const Shape& shape) {
  Tensor x = empty(shape);
  float* data = x.mutable_data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) data[i] = std::sin(static_cast<float>(i) + 1);
  return x.set_requires_grad(true);
}

// The gradient of parameter `which` in step `step`.
inline Tensor gradient(const Shape& shape, int step, int which = 0) {
  Tensor x = empty(shape);
  float* data = x.mutable_data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    data[i] = std::cos(static_cast<float>(3 * i + 7 * step + 11 * which));
  }
  return x;
}

// Sets gradients of step `step` for all parameters but the third.
inline void set_gradients(const std::vector<Tensor>& params, int step) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (i == 2) continue;
    params[i].set_grad(gradient(params[i].shape(), step, static_cast<int>(i)));
  }
}

// Everything that steps of the optimizer may change.
inline std::vector<Doubles> everything(const Optimizer& optimizer) {
  std::vector<Doubles> all;
  for (const Tensor& param : optimizer.params()) all.push_back(param.to_vector<double>());
  for (const NamedTensor& entry : optimizer.state()) {
    all.push_back(entry.tensor.to_vector<double>());
  }
  for (const NamedCounter& counter : optimizer.counters()) {
    all.push_back({static_cast<double>(counter.value)});
  }
  return all;
}

// Each step rounds a few intermediate results, all of order 1, to f32.
inline double allowed_after(int steps) { return 8 * 0x1p-24 * steps; }

inline void expect_values(const Tensor& got, const Doubles& want, double allowed) {
  const auto values = got.to_vector<double>();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(values[i], want[i], allowed * std::max(1.0, std::abs(want[i]))) << "element " << i;
  }
}

// Runs `steps` steps of `optimizer` on `param`, whose gradients are divided by `inv_scale` in
// advance, and compares with `rules`: one per element, with `param` and step(gradient) in double.
template <class Optimizer, class Rule>
void expect_rules(Optimizer& optimizer, const Tensor& param, std::vector<Rule> rules, int steps,
                  double inv_scale) {
  const auto start = param.to_vector<double>();
  for (std::size_t i = 0; i < rules.size(); ++i) rules[i].param = start[i];
  for (int step = 0; step < steps; ++step) {
    const Tensor grad = gradient(param.shape(), step);
    const auto grads = grad.to_vector<double>();
    for (std::size_t i = 0; i < rules.size(); ++i) rules[i].step(grads[i]);
    float* data = grad.mutable_data<float>();
    for (std::int64_t i = 0; i < grad.numel(); ++i) data[i] /= static_cast<float>(inv_scale);
    param.set_grad(grad);
    optimizer.step(inv_scale);
  }
  Doubles want;
  for (const Rule& rule : rules) want.push_back(rule.param);
  expect_values(param, want, allowed_after(steps));
}

// Trains two steps, moves the state to a new optimizer, and compares three more steps of both.
template <class Optimizer, class Options>
void expect_resuming_is_continuing(const Options& options) {
  const Tensor idle = parameter({2});
  const Tensor param = parameter({19});
  const Tensor resumed = parameter({19});
  Optimizer optimizer({idle, param}, options);
  Optimizer other({idle, resumed}, options);
  const auto step = [](Optimizer& o, const Tensor& p, int number) {
    p.set_grad(gradient({19}, number));
    o.step();
  };
  for (const int number : {0, 1}) step(optimizer, param, number);
  copy_elements(param, resumed);
  for (const NamedTensor& state : optimizer.state()) other.set_state(state.name, state.tensor);
  for (const NamedCounter& counter : optimizer.counters()) {
    other.set_counter(counter.name, counter.value);
  }
  for (const int number : {2, 3, 4}) {
    step(optimizer, param, number);
    step(other, resumed, number);
  }
  EXPECT_EQ(param.to_vector<float>(), resumed.to_vector<float>());
}

}  // namespace mezzo::optim

// A training with plain operations, eagerly and captured, for passes that join calls.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::graph {

struct PlainTraining {
  std::vector<Shape> parameters;
  Shape x;
  // The loss of a batch. Its own operations and states are created anew for each run of train().
  std::function<Tensor(std::span<const Tensor> parameters, const Tensor& x)> loss;
  std::optional<DType> dtype{};  // of the mixed-precision region, if there is one
};

using Numbers = std::vector<std::vector<double>>;

// The steps of a training.
class PlainRun {
 public:
  explicit PlainRun(const PlainTraining& training) : training_(training) {
    Generator generator(7);
    for (const Shape& shape : training.parameters) {
      parameters_.push_back(randn(shape, generator));
      parameters_.back().set_requires_grad(true);
    }
    optimizer_.emplace(parameters_, optim::SgdOptions{.lr = 0.05, .momentum = 0.9});
  }

  std::vector<Tensor> operator()(std::span<const Tensor> in) {
    Tensor loss;
    {
      const amp::Autocast region(training_.dtype.value_or(DType::kBf16),
                                 training_.dtype.has_value());
      loss = training_.loss(parameters_, in[0]);
    }
    loss.backward();
    optimizer_->step();
    optimizer_->zero_grad();
    return {loss};
  }

  void add_parameters(Numbers& numbers) const {
    for (const Tensor& tensor : parameters_) numbers.push_back(tensor.to_vector<double>());
  }

 private:
  const PlainTraining& training_;
  std::vector<Tensor> parameters_;
  std::optional<optim::Sgd> optimizer_;
};

// The losses of some steps and the final parameters. `options`: captured with these; null: eager.
// `text` receives the program.
inline Numbers train(const PlainTraining& training, const CompileOptions* options = nullptr,
                     std::string* text = nullptr) {
  constexpr int kSteps = 4;
  PlainRun run(training);
  const auto step = [&](std::span<const Tensor> in) { return run(in); };
  std::optional<CompiledStep> captured;
  if (options != nullptr) captured.emplace(step, *options);
  Generator generator(8);
  Numbers numbers;
  for (int i = 0; i < kSteps; ++i) {
    const Tensor x = randn(training.x, generator);
    numbers.push_back((captured ? (*captured)({&x, 1}) : step({&x, 1}))[0].to_vector<double>());
  }
  run.add_parameters(numbers);
  if (text != nullptr) *text = to_text(captured->latest()->program());
  return numbers;
}

// Expects that the captured training, whose program must contain `call`, gives the values of the
// eager one. `tolerance` is relative to the largest element of a tensor; 0 demands the same bits.
inline void expect_trains_alike(const PlainTraining& training, const std::string& call,
                                double tolerance = 0) {
  const Numbers eager = train(training);
  const CompileOptions options;
  std::string text;
  const Numbers captured = train(training, &options, &text);
  EXPECT_NE(text.find(call), std::string::npos) << text;
  if (tolerance == 0) {
    EXPECT_TRUE(captured == eager);
    return;
  }
  ASSERT_EQ(captured.size(), eager.size());
  for (std::size_t i = 0; i < eager.size(); ++i) {
    double largest = 0;
    for (const double x : eager[i]) largest = std::max(largest, std::abs(x));
    for (std::size_t k = 0; k < eager[i].size(); ++k) {
      EXPECT_NEAR(captured[i][k], eager[i][k], tolerance * largest) << "tensor " << i;
    }
  }
}

// Expects that, without the pass, the captured training has the eager bits and no such call.
inline void expect_plain_without(const char* pass, const PlainTraining& training,
                                 const std::string& call) {
  const CompileOptions options{.passes = {.disabled = {pass}}};
  std::string text;
  EXPECT_TRUE(train(training, &options, &text) == train(training));
  EXPECT_EQ(text.find(call), std::string::npos) << text;
}

}  // namespace mezzo::graph

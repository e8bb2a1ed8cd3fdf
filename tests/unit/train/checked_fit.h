// Small trainings that should be refused before their first step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/data/tensor_batches.h"
#include "mezzo/nn/nn.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/train/model.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {

// Examples of two values in three classes.
inline data::TensorBatches rows_in_classes(std::int64_t count,
                                           data::TensorBatchesOptions options = {}) {
  Generator generator(4);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(i % 3);
  return {randn({count, 2}, generator), from_values(labels, {count}), options};
}

// A training that counts its steps, in batches of 16.
struct CheckedFit {
  explicit CheckedFit(nn::Module& of, const amp::TrainStepOptions& step = {}, bool graph = false)
      : net(of),
        sgd(net.parameters(), {.lr = 0.1}),
        model(net, nn::CrossEntropyLoss(), sgd, {.amp = {.step = step}, .graph = graph}) {}

  // The message of the refusal; expects that no step was done.
  std::string refusal(data::BatchSource& loader, FitOptions options = {}, std::int64_t epochs = 2) {
    options.callbacks.push_back(&count);
    const std::string message = message_of<Error>([&] { model.fit(epochs, loader, options); });
    EXPECT_EQ(steps, 0) << message;
    return message;
  }

  nn::Module& net;
  optim::Sgd sgd;
  Model model;
  std::int64_t steps = 0;
  LambdaCallback count{{.on_step_end = [this](FitState&) { ++steps; }}};
};

}  // namespace mezzo::train

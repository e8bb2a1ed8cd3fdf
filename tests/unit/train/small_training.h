// Trainings of two steps per epoch, whose validations give prescribed scores.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/data/digits.h"
#include "mezzo/data/loader.h"
#include "mezzo/optim/adam.h"
#include "mezzo/train/model.h"
#include "mezzo/train/model_checkpoint.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/io/stateful_net.h"

namespace mezzo::train {

// A metric that returns prescribed scores.
class Scripted final : public Metric {
 public:
  Scripted(std::vector<double> values, bool low) : values_(std::move(values)), low_(low) {}
  std::string name() const override { return "score"; }
  void reset() override {}
  void update(const Tensor&, const Tensor&, const amp::BatchLoss&) override {}
  double value() const override { return values_.at(next_++); }
  bool prefers_low() const override { return low_; }

 private:
  std::vector<double> values_;
  bool low_;
  mutable std::size_t next_ = 0;
};

// Two steps per epoch, and one epoch for each score.
struct Small {
  explicit Small(const std::vector<double>& scores, bool low = false, std::int64_t batch_size = 4)
      : loader(*digits, {.batch_size = batch_size, .drop_remainder = true, .seed = 5}) {
    model.add_metric(std::make_unique<Scripted>(scores, low));
  }

  FitResult fit(std::int64_t epochs, const CheckpointConfig& config, const std::string& resume = {},
                Callback* callback = nullptr) {
    ModelCheckpoint checkpoints(config);
    FitOptions options{.callbacks = {&checkpoints}, .validation = &test_loader, .resume = resume};
    if (callback != nullptr) options.callbacks.push_back(callback);
    return model.fit(epochs, loader, options);
  }

  std::unique_ptr<data::Dataset> digits = data::open_digits(data::Split::kTrain, 8);
  data::DataLoader loader;
  data::DataLoader test_loader{*digits, {.batch_size = 8, .shuffle = false}};
  test::StatefulNet net;
  optim::Adam optimizer{net.parameters()};
  Model model{net, amp::class_loss, optimizer, {.metrics = {}}};
};

}  // namespace mezzo::train

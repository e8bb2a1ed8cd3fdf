// Tests that a checkpoint holds everything of a training run: stopped and resumed equals never
// stopped, bit for bit.
#include <memory>

#include <gmock/gmock.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/random.h"
#include "mezzo/data/digits.h"
#include "mezzo/data/loader.h"
#include "mezzo/io/checkpoint.h"
#include "mezzo/ops/losses.h"
#include "mezzo/optim/adam.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"
#include "tests/unit/io/stateful_net.h"

namespace mezzo::io {
namespace {

using data::TempFolder;

struct Training {
  Training(const amp::Policy& chosen, std::uint64_t seed) : policy(chosen) {
    manual_seed(seed);
    net = std::make_unique<test::StatefulNet>();
    adam = std::make_unique<optim::Adam>(net->parameters(), optim::AdamOptions{.lr = 0.01});
  }

  // Returns the losses.
  std::vector<double> train(std::int64_t steps) {
    std::vector<double> losses;
    data::Batch batch;
    while (static_cast<std::int64_t>(losses.size()) < steps) {
      if (!loader.next(batch)) continue;
      losses.push_back(train_on(batch));
      ++step;
    }
    return losses;
  }

  double train_on(const data::Batch& batch) {
    Tensor logits;
    {
      const amp::Autocast region(policy);
      logits = (*net)(batch.images).astype(DType::kF32);
    }
    const Tensor loss = cross_entropy(logits, batch.labels);
    scaler.scale(loss).backward();
    skipped += scaler.step(*adam).stepped ? 0 : 1;
    scaler.update();
    adam->zero_grad();
    return loss.item();
  }

  Checkpoint save() const {
    Checkpoint checkpoint{.step = step};
    checkpoint.groups = {{"model", net->state()}, {"optimizer", adam->state()}};
    CheckpointValues& counters = checkpoint.values["optimizer"];  // exists even if it is empty
    for (const optim::NamedCounter& counter : adam->counters()) {
      counters[counter.name] = counter.value;
    }
    const amp::LossScaleState& state = scaler.state();
    checkpoint.values["scaler"] = {{"scale", state.scale()},
                                   {"growth_tracker", state.growth_tracker()},
                                   {"hysteresis_left", state.hysteresis_left()}};
    checkpoint.values["loader"] = {{"epoch", loader.position().epoch},
                                   {"step", loader.position().step}};
    checkpoint.random["default"] = default_generator().position();
    return checkpoint;
  }

  void load(const Checkpoint& checkpoint) {
    step = checkpoint.step;
    net->load_state(checkpoint.tensors("model"));
    for (const NamedTensor& named : checkpoint.tensors("optimizer")) {
      adam->set_state(named.name, named.tensor);
    }
    for (const auto& [name, value] : checkpoint.values.at("optimizer")) {
      adam->set_counter(name, std::get<std::int64_t>(value));
    }
    scaler.state().restore(checkpoint.value<double>("scaler", "scale"),
                           checkpoint.value<std::int64_t>("scaler", "growth_tracker"),
                           checkpoint.value<std::int64_t>("scaler", "hysteresis_left"));
    loader.seek({checkpoint.value<std::int64_t>("loader", "epoch"),
                 checkpoint.value<std::int64_t>("loader", "step")});
    default_generator().set_position(checkpoint.random_position("default"));
  }

  amp::Policy policy;
  std::unique_ptr<data::Dataset> digits = data::open_digits(data::Split::kTrain, 50);
  data::DataLoader loader{*digits, {.batch_size = 16, .seed = 5}};
  std::unique_ptr<test::StatefulNet> net;
  std::unique_ptr<optim::Adam> adam;
  // The first steps overflow f16 and are skipped; three good ones in a row raise the scale.
  amp::GradScaler scaler{{.init_scale = 0x1p24, .growth_interval = 3}};
  std::int64_t step = 0;
  std::int64_t skipped = 0;
};

void expect_same(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  EXPECT_TRUE(std::ranges::equal(a, b, same_bits));
}

// Stops after `steps` of twelve steps, and resumes in another object with other weights.
void expect_unbroken(const amp::Policy& policy, std::int64_t steps) {
  constexpr std::int64_t kSteps = 12;
  Training whole(policy, 1);
  std::vector<double> expected = whole.train(kSteps);
  EXPECT_GT(whole.skipped, 0) << "the scale is meant to overflow";
  EXPECT_LT(whole.skipped, kSteps - 4);

  const TempFolder folder;
  {
    Training first(policy, 1);
    first.train(steps);
    write_checkpoint(folder.path(), first.save());
  }
  Training second(policy, 99);
  second.load(read_latest_checkpoint(folder.path()).checkpoint);
  const std::vector<double> losses = second.train(kSteps - steps);
  EXPECT_EQ(losses, std::vector<double>(expected.begin() + steps, expected.end()));
  expect_same(second.net->state(), whole.net->state());
  expect_same(second.adam->state(), whole.adam->state());
  EXPECT_TRUE(same_checkpoint(second.save(), whole.save()));
}

// Steps 4 and 8 end an epoch, the first ones are skipped.
TEST(TrainingState, GoesOnAsIfItHadNeverStopped) {
  for (std::int64_t steps = 0; steps < 10; ++steps) {
    SCOPED_TRACE(steps);
    expect_unbroken({amp::Level::kO2, DType::kF16}, steps);
  }
}

}  // namespace
}  // namespace mezzo::io

#include "mezzo/train/checkpointing.h"

#include "mezzo/core/random.h"

namespace mezzo::train {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kScaler = "scaler";
constexpr const char* kLoader = "loader";
constexpr const char* kGenerator = "default";

io::CheckpointValues counters_of(const optim::Optimizer& optimizer) {
  io::CheckpointValues values;
  for (const optim::NamedCounter& counter : optimizer.counters()) {
    values[counter.name] = counter.value;
  }
  return values;
}

io::CheckpointValues values_of(const amp::GradScaler& scaler) {
  io::CheckpointValues values;
  for (const auto& [name, value] : scaler.state_dict()) values[name] = value;
  return values;
}

void restore_optimizer(optim::Optimizer& optimizer, const io::Checkpoint& checkpoint) {
  for (const NamedTensor& entry : checkpoint.tensors(kOptimizer)) {
    optimizer.set_state(entry.name, entry.tensor);
  }
  const auto section = checkpoint.values.find(kOptimizer);
  if (section == checkpoint.values.end()) return;
  for (const auto& [name, value] : section->second) {
    optimizer.set_counter(name, checkpoint.value<std::int64_t>(kOptimizer, name));
  }
}

void restore_scaler(amp::GradScaler& scaler, const io::Checkpoint& checkpoint) {
  if (!scaler.is_enabled()) return;
  amp::GradScaler::StateDict state;
  // In the scaler's own order, which is also what must be there.
  for (const auto& [name, value] : scaler.state_dict()) {
    state.emplace_back(name, checkpoint.value<double>(kScaler, name));
  }
  scaler.load_state_dict(state);
}

}  // namespace

io::Checkpoint capture(const TrainingState& state, std::int64_t step) {
  io::Checkpoint checkpoint{.step = step};
  checkpoint.groups = {{kModel, state.net.state()}, {kOptimizer, state.optimizer.state()}};
  checkpoint.random[kGenerator] = default_generator().position();
  checkpoint.values[kOptimizer] = counters_of(state.optimizer);
  checkpoint.values[kScaler] = values_of(state.scaler);
  const data::LoaderPosition position = state.loader.position();
  checkpoint.values[kLoader] = {{"epoch", position.epoch}, {"step", position.step}};
  return checkpoint;
}

void restore(const TrainingState& state, const io::Checkpoint& checkpoint) {
  state.net.load_state(checkpoint.tensors(kModel));
  restore_optimizer(state.optimizer, checkpoint);
  restore_scaler(state.scaler, checkpoint);
  state.loader.seek({.epoch = checkpoint.value<std::int64_t>(kLoader, "epoch"),
                     .step = checkpoint.value<std::int64_t>(kLoader, "step")});
  default_generator().set_position(checkpoint.random_position(kGenerator));
}

}  // namespace mezzo::train

#include "mezzo/train/checkpointing.h"

#include <filesystem>

#include "mezzo/core/random.h"
#include "mezzo/io/safetensors.h"

namespace mezzo::train {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kScaler = "scaler";
constexpr const char* kStep = "step";
constexpr const char* kSkippedInARow = "skipped_in_a_row";
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

// What must be the same for a position to mean the same batch.
io::CheckpointValues order_of(const data::DataLoader& loader) {
  const data::LoaderOptions& options = loader.options();
  return {{"images", loader.dataset_size()},
          {"batch_size", options.batch_size},
          {"drop_remainder", static_cast<std::int64_t>(options.drop_remainder)},
          {"shuffle", static_cast<std::int64_t>(options.shuffle)},
          {"seed", static_cast<std::int64_t>(options.seed)}};
}

io::CheckpointValues values_of(const data::DataLoader& loader) {
  io::CheckpointValues values = order_of(loader);
  values["epoch"] = loader.position().epoch;
  values["step"] = loader.position().step;
  return values;
}

void restore_loader(data::DataLoader& loader, const io::Checkpoint& checkpoint) {
  for (const auto& [name, now] : order_of(loader)) {
    const auto before = checkpoint.value<std::int64_t>(kLoader, name);
    check_arg(before == std::get<std::int64_t>(now), "resume", "the loader was one with ", name,
              " ", before, ", now it is ", std::get<std::int64_t>(now),
              ". Make the same loader, or begin in another folder");
  }
  loader.seek({.epoch = checkpoint.value<std::int64_t>(kLoader, "epoch"),
               .step = checkpoint.value<std::int64_t>(kLoader, "step")});
}

}  // namespace

io::Checkpoint capture(const TrainingState& state, std::int64_t step) {
  io::Checkpoint checkpoint{.step = step};
  checkpoint.groups = {{kModel, state.step.net().state()},
                       {kOptimizer, state.step.optimizer().state()}};
  checkpoint.random[kGenerator] = default_generator().position();
  checkpoint.values[kOptimizer] = counters_of(state.step.optimizer());
  checkpoint.values[kScaler] = values_of(state.step.scaler());
  checkpoint.values[kStep] = {{kSkippedInARow, state.step.skipped_in_a_row()}};
  checkpoint.values[kLoader] = values_of(state.loader);
  return checkpoint;
}

void restore(const TrainingState& state, const io::Checkpoint& checkpoint) {
  restore_loader(state.loader, checkpoint);
  state.step.net().load_state(checkpoint.tensors(kModel));
  restore_optimizer(state.step.optimizer(), checkpoint);
  restore_scaler(state.step.scaler(), checkpoint);
  state.step.set_skipped_in_a_row(checkpoint.value<std::int64_t>(kStep, kSkippedInARow));
  default_generator().set_position(checkpoint.random_position(kGenerator));
}

std::vector<NamedTensor> read_weights(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return io::read_safetensors(path).tensors;
  const bool is_one = io::list_checkpoints(path).empty();
  return (is_one ? io::read_checkpoint(path) : io::read_latest_checkpoint(path).checkpoint)
      .tensors(kModel);
}

}  // namespace mezzo::train

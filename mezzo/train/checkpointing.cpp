#include "mezzo/train/checkpointing.h"

#include <algorithm>
#include <filesystem>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/core/log.h"
#include "mezzo/core/random.h"
#include "mezzo/io/checkpoint_manifest.h"
#include "mezzo/io/pytorch_file.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/optim/sharded.h"
#include "mezzo/train/moving_average.h"

namespace mezzo::train {
namespace {

constexpr const char* kOptimizer = "optimizer";
constexpr const char* kScales = "scales";
constexpr const char* kOptimizerKind = "optimizer_kind";
constexpr const char* kScaler = "scaler";
constexpr const char* kStep = "step";
constexpr const char* kSkippedInARow = "skipped_in_a_row";
constexpr const char* kLoader = "loader";
constexpr const char* kImages = "images";
constexpr const char* kStepSize = "step_size";    // examples of a step, of all processes
constexpr const char* kBatchSize = "batch_size";  // and what earlier versions kept in its place
constexpr const char* kProcesses = "processes";
constexpr const char* kSampler = "sampler";
constexpr const char* kNoSampler = "none";
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

io::CheckpointValues kind_of(const optim::Optimizer& optimizer) {
  return {{"name", std::string(optimizer.name())},
          {"parameters", static_cast<std::int64_t>(optimizer.params().size())}};
}

// Names of state are not enough: several optimizers have the same ones, and Sgd without momentum
// has none. Checkpoints of earlier versions do not record the optimizer.
void check_kind(const optim::Optimizer& optimizer, const io::Checkpoint& checkpoint) {
  if (!checkpoint.values.contains(kOptimizerKind)) return;
  const auto& name = checkpoint.value<std::string>(kOptimizerKind, "name");
  const auto parameters = checkpoint.value<std::int64_t>(kOptimizerKind, "parameters");
  const auto own = static_cast<std::int64_t>(optimizer.params().size());
  check_arg(name == optimizer.name() && parameters == own, "resume", "the checkpoint is of ", name,
            " with ", parameters, " parameters, this optimizer is ", optimizer.name(), " with ",
            own, ". Make the same optimizer, or use another folder");
}

void restore_optimizer(optim::Optimizer& optimizer, const io::Checkpoint& checkpoint) {
  optimizer.clear_state();
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
  const auto saved = checkpoint.values.find(kScaler);
  const bool has_saved = saved != checkpoint.values.end() && !saved->second.empty();
  if (!scaler.is_enabled()) {
    if (has_saved) {
      logging::write(logging::Topic::kWarning,
                     "the checkpoint is of a run with loss scaling, but this run has none");
    }
    return;
  }
  check_arg(has_saved, "resume",
            "the checkpoint is of a run without loss scaling, but this run has it. Turn it off, or "
            "use another folder");
  amp::GradScaler::StateDict state;
  // In the scaler's own order, which also lists what must be there.
  for (const auto& [name, value] : scaler.state_dict()) {
    state.emplace_back(name, checkpoint.value<double>(kScaler, name));
  }
  scaler.load_state_dict(state);
}

void restore_scales(const amp::TrainStep& step, const io::Checkpoint& checkpoint) {
  const auto scales = step.scale_histories();
  if (scales == nullptr) return;
  const bool has_some = std::ranges::any_of(
      checkpoint.groups, [](const io::CheckpointGroup& group) { return group.name == kScales; });
  check_arg(has_some, "resume",
            "the checkpoint is of a run without delayed scales, but this run has them. Use another "
            "recipe, or another folder");
  scales->load_state(checkpoint.tensors(kScales));
}

// The values of checkpoints of earlier versions: they trained without samplers, and at first in one
// process.
io::CheckpointValues earlier_order(const io::CheckpointValues& saved) {
  const auto number = [&](const char* name) {
    const auto found = saved.find(name);
    return found != saved.end() ? std::get<std::int64_t>(found->second) : std::int64_t{1};
  };
  return {{kStepSize, number(kBatchSize) * number(kProcesses)},
          {kSampler, std::string(kNoSampler)}};
}

std::string sampler_of(const data::BatchOrder& order) {
  return order.sampler != nullptr ? order.sampler->description() : kNoSampler;
}

// The settings that must be the same for a position to mean the same examples. How many processes
// share a step does not matter.
io::CheckpointValues order_of(const TrainingState& state) {
  const data::BatchOrder& order = state.loader.order();
  const distributed::ProcessGroup* group = state.step.options().processes;
  const std::int64_t processes = group != nullptr ? group->size() : order.shard.count;
  return {{kImages, order.examples},
          {kStepSize, order.batch_size * processes},
          {"drop_remainder", static_cast<std::int64_t>(order.drop_remainder)},
          {"shuffle", static_cast<std::int64_t>(order.shuffle)},
          {"seed", static_cast<std::int64_t>(order.seed)},
          {kSampler, sampler_of(order)}};
}

io::CheckpointValues place_of(const TrainingState& state) {
  io::CheckpointValues values = order_of(state);
  values["epoch"] = state.loader.position().epoch;
  values["step"] = state.loader.position().step;
  return values;
}

const char* advice_on(std::string_view name) {
  if (name == kImages) {
    return ". Their number must stay the same: replace the file of an unreadable image with a good "
           "one, bring a text back as it was, or use another folder";
  }
  if (name == kStepSize) {
    return ". Processes times batch size must stay the same: change the batch size with the number "
           "of processes, or use another folder";
  }
  return ". Make the same loader, or use another folder";
}

void check_order(const TrainingState& state, const io::Checkpoint& checkpoint) {
  const auto section = checkpoint.values.find(kLoader);
  const io::CheckpointValues saved =
      section != checkpoint.values.end() ? section->second : io::CheckpointValues();
  const io::CheckpointValues earlier_values = earlier_order(saved);
  for (const auto& [name, now] : order_of(state)) {
    const auto earlier = earlier_values.find(name);
    const bool is_older = earlier != earlier_values.end() && !saved.contains(name);
    const char* const advice = advice_on(name);
    std::visit(
        [&, &key = name]<class T>(const T& value) {
          const T before =
              is_older ? std::get<T>(earlier->second) : checkpoint.value<T>(kLoader, key);
          check_arg(before == value, "resume", "the loader was one with ", key, " ", before,
                    ", now it is ", value, advice);
        },
        now);
  }
}

// Everything that may be wrong is checked before the random stream is set, since that accepts
// anything.
void restore_all_but_network(const TrainingState& state, const io::Checkpoint& checkpoint) {
  const RandomPosition random = checkpoint.random_position(kGenerator);
  restore_scaler(state.step.scaler(), checkpoint);
  restore_optimizer(state.step.optimizer(), checkpoint);
  restore_scales(state.step, checkpoint);
  state.step.set_skipped_in_a_row(checkpoint.value<std::int64_t>(kStep, kSkippedInARow));
  state.loader.seek({.epoch = checkpoint.value<std::int64_t>(kLoader, "epoch"),
                     .step = checkpoint.value<std::int64_t>(kLoader, "step")});
  default_generator().set_position(random);
}

}  // namespace

namespace {

// The state of this process, in which a sharded optimizer has its own parts alone.
io::Checkpoint capture_own(const TrainingState& state, std::int64_t step) {
  io::Checkpoint checkpoint{.step = step};
  checkpoint.groups = {{kModelGroup, state.step.net().state()},
                       {kOptimizer, state.step.optimizer().state()}};
  if (const auto scales = state.step.scale_histories()) {
    checkpoint.groups.push_back({kScales, scales->state()});
  }
  checkpoint.random[kGenerator] = default_generator().position();
  checkpoint.values[kOptimizer] = counters_of(state.step.optimizer());
  checkpoint.values[kOptimizerKind] = kind_of(state.step.optimizer());
  checkpoint.values[kScaler] = values_of(state.step.scaler());
  checkpoint.values[kStep] = {{kSkippedInARow, state.step.skipped_in_a_row()}};
  checkpoint.values[kLoader] = place_of(state);
  return checkpoint;
}

}  // namespace

io::Checkpoint capture(const TrainingState& state, std::int64_t step) {
  io::Checkpoint checkpoint = capture_own(state, step);
  const optim::Optimizer& optimizer = state.step.optimizer();
  if (optimizer.is_sharded()) {
    checkpoint.groups[1].tensors =
        optim::gathered_state(optimizer, *state.step.options().processes);
  }
  return checkpoint;
}

void restore(const TrainingState& state, const io::Checkpoint& checkpoint) {
  check_order(state, checkpoint);
  check_kind(state.step.optimizer(), checkpoint);
  // The tensors of this checkpoint are not copies. They need not be: the optimizer's tensors are
  // replaced, not overwritten.
  const io::Checkpoint before = capture_own(state, 0);
  try {
    restore_all_but_network(state, checkpoint);
    // Last, since this alone could not be undone; it checks everything before it begins.
    state.step.net().load_state(checkpoint.tensors(kModelGroup));
  } catch (...) {
    restore_all_but_network(state, before);
    throw;
  }
}

std::vector<NamedTensor> read_weights(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  // A file comes first, since checkpoints with its name as their prefix may lie beside it.
  if (!is_folder && (fs::exists(path, ignored) || io::list_checkpoints(path).empty())) {
    return io::is_pytorch_file(path) ? io::read_pytorch(path) : io::read_safetensors(path).tensors;
  }
  const bool has_some = !io::list_checkpoints(path).empty();
  if (!has_some && !fs::exists(fs::path(path) / io::kManifestName, ignored)) {
    fail<FileError>(
        "checkpoint", path,
        ": does not hold a checkpoint. Give a safetensors or PyTorch file, a checkpoint, "
        "or a folder that --checkpoint-dir wrote");
  }
  return evaluated_weights(has_some ? io::read_latest_checkpoint(path).checkpoint
                                    : io::read_checkpoint(path));
}

}  // namespace mezzo::train

// Checkpoints: everything that a training run needs to continue as if it had never stopped.
//
// docs/formats.md describes the files. A checkpoint is a folder of its own that appears complete or
// not at all; earlier checkpoints are removed only after that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/core/random.h"

namespace mezzo::io {

// Values keep their type and their bits when read back; of a NaN, only that it is one.
using CheckpointValue = std::variant<bool, std::int64_t, double, std::string>;
using CheckpointValues = std::map<std::string, CheckpointValue>;

// Tensors that belong together, such as those of the model or of the optimizer. Each group is a
// safetensors file, which other programs can read.
struct CheckpointGroup {
  std::string name;  // lower-case letters, digits and `_`, at most 64
  std::vector<NamedTensor> tensors{};
};

struct Checkpoint {
  std::int64_t step = 0;                             // steps done
  std::optional<double> score{};                     // how good the model is; see KeepBest
  std::vector<CheckpointGroup> groups{};             // in this order
  std::map<std::string, RandomPosition> random{};    // streams by name
  std::map<std::string, CheckpointValues> values{};  // by section: loader, scaler, configuration

  // What a checkpoint holds under these names; T is a type of CheckpointValue. Throws FileError if
  // it is missing or has another type, since the checkpoint then belongs to another program.
  const std::vector<NamedTensor>& tensors(std::string_view group) const;
  RandomPosition random_position(const std::string& name) const;
  template <class T>
  const T& value(const std::string& section, const std::string& name) const;
};

// Which score is the best. A NaN score never is.
enum class KeepBest : std::uint8_t { kNone, kHighest, kLowest };

struct CheckpointOptions {
  std::int64_t keep = 3;  // keep this many of the newest; 0: all
  // Also keep the checkpoint with the best score; the oldest one of equal scores.
  KeepBest keep_best = KeepBest::kNone;
  // Precedes the name, `FOLDER/PREFIX-000007-step-450`. Empty, or letters, digits, `_`, `.` and
  // `-`, at most 64. Checkpoints of different prefixes in one folder are counted and kept
  // separately.
  std::string prefix{};
};

// A checkpoint as its manifest describes it; the tensors are not read.
struct CheckpointInfo {
  std::string path{};       // of its folder
  std::int64_t number = 0;  // counts the checkpoints of the folder, from 1
  std::int64_t step = 0;
  std::optional<double> score{};
  std::string problem{};  // what is wrong; empty if the manifest and all sizes are right
};

// A checkpoint that was skipped, and why.
struct DamagedCheckpoint {
  std::string path{};
  std::string problem{};
};

struct FoundCheckpoint {
  Checkpoint checkpoint{};
  std::string path{};
  std::vector<DamagedCheckpoint> damaged{};  // tried before it
};

// Writes a checkpoint into `folder`, which is made if needed, and returns its path, for example
// `FOLDER/000007-step-450` for the seventh one. On return the checkpoint is complete and on the
// disk, and older ones that `options` do not keep are removed. Failure to remove one is only a
// warning. Files that mezzo did not write are never touched. The disk must have space for one
// checkpoint more than are kept.
//
// Throws ArgumentError if the checkpoint cannot be written as it is (names, dtypes, a negative
// step, a prefix that is also the name of a folder in `folder`). Throws FileError `[checkpoint]
// PATH: what failed: the system's text. What to do.`, also if another process is writing into the
// folder. The earlier contents of the folder are then still there. The new checkpoint is not,
// unless the message says that it is complete.
// if the message says so.
std::string write_checkpoint(const std::string& folder, const Checkpoint& checkpoint,
                             const CheckpointOptions& options = {});

// Throws the ArgumentErrors of write_checkpoint() that depend on the checkpoint alone.
void check_checkpoint(const Checkpoint& checkpoint);

// The `folder` argument for the functions below: the folder itself for checkpoints without a
// prefix, else `FOLDER/PREFIX`. Where a folder of that name exists, it is taken as a folder
// instead.
std::string checkpoint_series(const std::string& folder, const std::string& prefix);

// Reads one checkpoint and verifies the checksum of every file. Throws FileError.
Checkpoint read_checkpoint(const std::string& path);

// Reads the newest sound checkpoint of a folder. Each damaged one that is skipped gets a warning in
// the log and an entry in the result. Throws FileError if there is no checkpoint (call
// list_checkpoints() first) or if none is sound; the message then says what is wrong with each.
FoundCheckpoint read_latest_checkpoint(const std::string& folder);

// Like read_latest_checkpoint(), but tries the checkpoint with the best score first, then the next
// best.
FoundCheckpoint read_best_checkpoint(const std::string& folder, KeepBest best);

// The checkpoints of a folder, newest first. This is the order of writing, which differs from the
// order of steps if a run went back. Empty if the folder does not exist. Throws FileError if it
// cannot be read.
std::vector<CheckpointInfo> list_checkpoints(const std::string& folder);

}  // namespace mezzo::io

// Checkpoints: all that a training run needs to go on as if it had never stopped.
//
// docs/formats.md describes the files. A checkpoint is a folder of its own that appears complete or
// not at all; what was there before is removed only after that.
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

// Comes back with the type and the bits that it had; of a NaN only that it is one.
using CheckpointValue = std::variant<bool, std::int64_t, double, std::string>;
using CheckpointValues = std::map<std::string, CheckpointValue>;

// Tensors that belong together, such as those of the model or of the optimizer. Each group is a
// safetensors file of its own, which other programs can read.
struct CheckpointGroup {
  std::string name;  // of lower-case letters, digits and `_`, at most 64
  std::vector<NamedTensor> tensors{};
};

struct Checkpoint {
  std::int64_t step = 0;                             // steps done
  std::optional<double> score{};                     // how good it is; see KeepBest
  std::vector<CheckpointGroup> groups{};             // in this order
  std::map<std::string, RandomPosition> random{};    // streams by name
  std::map<std::string, CheckpointValues> values{};  // by section: loader, scaler, configuration

  // What a checkpoint holds under these names; T is a type of CheckpointValue. Throws FileError if
  // it is missing or of another type: the checkpoint is that of another program.
  const std::vector<NamedTensor>& tensors(std::string_view group) const;
  RandomPosition random_position(const std::string& name) const;
  template <class T>
  const T& value(const std::string& section, const std::string& name) const;
};

// Which score is the best. One that is NaN never is.
enum class KeepBest : std::uint8_t { kNone, kHighest, kLowest };

struct CheckpointOptions {
  std::int64_t keep = 3;  // the newest so many stay; 0: all
  // Besides, the one with the best score stays; of equal ones the oldest.
  KeepBest keep_best = KeepBest::kNone;
  // Before the name, `FOLDER/PREFIX-000007-step-450`, or empty: letters, digits, `_`, `.` and `-`,
  // at most 64. Checkpoints of different prefixes in one folder are counted and kept apart.
  std::string prefix{};
};

// A checkpoint as far as its manifest tells; the tensors are not read.
struct CheckpointInfo {
  std::string path{};       // of its folder
  std::int64_t number = 0;  // counts the checkpoints of the folder, from 1 on
  std::int64_t step = 0;
  std::optional<double> score{};
  std::string problem{};  // what is wrong; empty if the manifest and all sizes are right
};

// A checkpoint that was passed over, and why.
struct DamagedCheckpoint {
  std::string path{};
  std::string problem{};
};

struct FoundCheckpoint {
  Checkpoint checkpoint{};
  std::string path{};
  std::vector<DamagedCheckpoint> damaged{};  // tried before it
};

// Writes a checkpoint into `folder`, which is made if needed, and returns its path,
// `FOLDER/000007-step-450` for the seventh one. When this returns, the checkpoint is complete and
// on the disk, and then those that `options` do not keep are gone; that one of them cannot be
// removed is only a warning. Files that mezzo did not write are never touched. There must be room
// for one checkpoint more than are kept.
//
// Throws ArgumentError if the checkpoint cannot be written as it is (names, dtypes, a negative
// step, a prefix that is also the name of a folder in `folder`), and FileError `[checkpoint] PATH:
// what failed: the system's text. What to do.`, also if another process writes into the folder at
// the same time. What was in the folder is then still there, and the new one is not, or is complete
// if the message says so.
std::string write_checkpoint(const std::string& folder, const Checkpoint& checkpoint,
                             const CheckpointOptions& options = {});

// Throws the ArgumentError that write_checkpoint() would, as far as the checkpoint is the reason.
void check_checkpoint(const Checkpoint& checkpoint);

// What `folder` is in the functions below: a folder, whose checkpoints without a prefix are meant,
// or `FOLDER/PREFIX`, if there is no folder of that name, for those with this prefix.
std::string checkpoint_series(const std::string& folder, const std::string& prefix);

// Reads one checkpoint and verifies the checksum of every file. Throws FileError.
Checkpoint read_checkpoint(const std::string& path);

// Reads the newest sound checkpoint of a folder. Damaged ones are passed over, each with a warning
// in the log and an entry in the result. Throws FileError if none is sound, saying of each what is
// wrong, or if there is none (ask list_checkpoints() first).
FoundCheckpoint read_latest_checkpoint(const std::string& folder);

// The same with the one that has the best score first, then the next best.
FoundCheckpoint read_best_checkpoint(const std::string& folder, KeepBest best);

// The checkpoints of a folder, newest first: the order in which they were written, which is not
// that of the steps if a run went back. Empty if the folder does not exist. Throws FileError if it
// cannot be read.
std::vector<CheckpointInfo> list_checkpoints(const std::string& folder);

}  // namespace mezzo::io

#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/io/checkpoint.h"
#include "mezzo/io/checkpoint_folder.h"
#include "mezzo/io/checkpoint_manifest.h"
#include "mezzo/io/crc32c.h"
#include "mezzo/io/file_calls.h"
#include "mezzo/io/safetensors_header.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

namespace fs = std::filesystem;

void check(const Checkpoint& checkpoint, const CheckpointOptions& options) {
  check_arg(options.keep >= 0, kCheckpointOp, "keep is ", options.keep,
            ". Give the number of checkpoints to keep, or 0 for all");
  check_arg(checkpoint.step >= 0, kCheckpointOp, "step is ", checkpoint.step,
            ". Count steps from 0");
  check_arg(is_checkpoint_prefix(options.prefix), kCheckpointOp, "the prefix is ",
            in_quotes(options.prefix),
            ". Use at most 64 letters, digits, '_', '-' and '.', and no '.' at its start");
  std::set<std::string_view> names;
  for (const CheckpointGroup& group : checkpoint.groups) {
    check_arg(is_group_name(group.name), kCheckpointOp, "a group of tensors is called ",
              in_quotes(group.name), ". Use 1 to 64 lower-case letters, digits and '_'");
    check_arg(names.insert(group.name).second, kCheckpointOp, "two groups of tensors are called ",
              in_quotes(group.name), ". Give each its own name");
  }
}

// A file of the checkpoint. Nobody knows of the checkpoint until it is complete, so the file needs
// no temporary name.
class PartFile {
 public:
  explicit PartFile(std::string path) : path_(std::move(path)) {
    check(create_file(path_, file_), "cannot be created");
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile() {
    if (file_ >= 0) static_cast<void>(close_file(file_, path_));
  }

  void write(std::span<const std::byte> bytes) {
    check(write_all(file_, path_, bytes), "cannot be written");
    bytes_ += bytes.size();
    crc_ = crc32c(bytes, crc_);
  }

  // Flushes the file to the disk and closes it.
  void finish() {
    check(sync_file(file_, path_), "cannot be written");
    check(close_file(file_, path_), "cannot be written");
  }

  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t crc() const { return crc_; }

 private:
  void check(int error, std::string_view what) const {
    if (error != 0) fail_file(kCheckpointOp, path_, what, error);
  }

  std::string path_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
  std::uint32_t crc_ = 0;
};

ManifestFile write_group(const std::string& path, const CheckpointGroup& group) {
  ManifestFile entry{.group = group.name};
  PartFile file(concat(path, "/", entry.file_name()));
  stream_safetensors(group.tensors, [&](std::span<const std::byte> piece) { file.write(piece); });
  file.finish();
  entry.bytes = file.bytes();
  entry.crc = file.crc();
  for (const NamedTensor& named : group.tensors) entry.names.push_back(named.name);
  return entry;
}

// The text of the manifest with these files.
std::string text_of(Manifest manifest, const Checkpoint& checkpoint) {
  manifest.checkpoint.step = checkpoint.step;
  manifest.checkpoint.score = checkpoint.score;
  manifest.checkpoint.random = checkpoint.random;
  manifest.checkpoint.values = checkpoint.values;
  std::string text = format_manifest(manifest);
  check_arg(text.size() <= kMaxManifest, kCheckpointOp, "the values take ", text.size(),
            " bytes, at most ", kMaxManifest, " are allowed. Store the large ones as tensors");
  return text;
}

// Writes all files and renames the folder to its final name.
void write_files(const std::string& temporary, const std::string& path,
                 const Checkpoint& checkpoint) {
  if (const int error = make_folder(temporary); error != 0) {
    fail_file(kCheckpointOp, temporary, "cannot be created", error);
  }
  Manifest manifest;
  for (const CheckpointGroup& group : checkpoint.groups) {
    manifest.files.push_back(write_group(temporary, group));
  }
  const std::string text = text_of(std::move(manifest), checkpoint);
  PartFile file(concat(temporary, "/", kManifestName));
  file.write(std::as_bytes(std::span(text)));
  file.finish();
  // All names are on the disk before the rename that makes them a checkpoint.
  if (const int error = sync_folder(temporary); error != 0) {
    fail_file(kCheckpointOp, temporary, "cannot be written", error);
  }
  if (const int error = rename_path(temporary, path); error != 0) {
    fail_file(kCheckpointOp, path, "cannot be created", error);
  }
}

// Removes the files that a checkpoint's manifest lists. Without a readable manifest nobody can say
// what belongs to the checkpoint, so only its folder is removed, and only if it is empty.
void remove_one(const std::string& path) {
  std::vector<std::string> names;
  try {
    for (const ManifestFile& file : parse_manifest_of(path).files) {
      names.push_back(file.file_name());
    }
  } catch (const FileError& error) {
    if (remove_folder(path) != 0) {
      logging::warn_once(concat(path, " stays: ", error.what()));
    }
    return;
  }
  if (const int error = remove_checkpoint(path, names); error != 0) {
    logging::write(
        logging::Topic::kWarning, "[checkpoint] ", path,
        ": an old checkpoint that cannot be removed: ", std::generic_category().message(error));
  }
}

// Removes checkpoints older than the newest `keep` sound ones. Damaged ones do not count.
void remove_old(const std::string& folder, const CheckpointOptions& options) {
  if (options.keep == 0) return;
  const std::vector<CheckpointInfo> infos =
      list_checkpoints(checkpoint_series(folder, options.prefix));
  std::string best;
  if (options.keep_best != KeepBest::kNone) {
    const std::vector<CheckpointInfo> ordered = best_first(infos, options.keep_best);
    if (!ordered.empty()) best = ordered.front().path;
  }
  std::int64_t kept = 0;
  for (const CheckpointInfo& info : infos) {
    if (kept < options.keep) {
      kept += info.problem.empty() ? 1 : 0;
    } else if (info.path != best) {
      remove_one(info.path);
    }
  }
}

}  // namespace

void check_checkpoint(const Checkpoint& checkpoint) {
  check(checkpoint, {});
  Manifest manifest;
  for (const CheckpointGroup& group : checkpoint.groups) {
    format_header(group.tensors, {});
    ManifestFile& file = manifest.files.emplace_back(ManifestFile{.group = group.name});
    for (const NamedTensor& named : group.tensors) file.names.push_back(named.name);
  }
  text_of(std::move(manifest), checkpoint);
}

std::string write_checkpoint(const std::string& folder, const Checkpoint& checkpoint,
                             const CheckpointOptions& options) {
  check(checkpoint, options);
  make_folders(folder, kCheckpointOp);
  const FolderLock lock(folder);
  const std::string series = checkpoint_series(folder, options.prefix);
  check_arg(options.prefix.empty() || !fs::is_directory(series), kCheckpointOp, "the prefix ",
            in_quotes(options.prefix), " is also the name of a folder in ", folder,
            ". Choose another");
  const std::vector<CheckpointEntry> entries = scan_checkpoints(series);
  for (const CheckpointEntry& entry : entries) {
    // Without the lock, its writer could still be alive.
    if (entry.is_temporary && lock.is_held()) static_cast<void>(remove_temporary(entry.path));
  }
  const std::int64_t number = entries.empty() ? 1 : entries.front().number + 1;
  const std::string path =
      (fs::path(folder) / checkpoint_name(options.prefix, number, checkpoint.step)).string();
  const std::string temporary = path + ".tmp";
  try {
    write_files(temporary, path, checkpoint);
  } catch (...) {
    static_cast<void>(remove_temporary(temporary));
    throw;
  }
  if (const int error = sync_folder(folder); error != 0) {
    fail_file(kCheckpointOp, path, "is written, but its folder cannot be synchronised", error);
  }
  // The new checkpoint is safe by now: a failure from here on costs space, not the run.
  try {
    remove_old(folder, options);
  } catch (const FileError& error) {
    logging::write(logging::Topic::kWarning, "old checkpoints stay: ", error.what());
  }
  return path;
}

}  // namespace mezzo::io

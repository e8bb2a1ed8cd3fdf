// The folder that holds checkpoints: their names, their order, and who may write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/io/checkpoint.h"
#include "mezzo/io/checkpoint_manifest.h"

namespace mezzo::io {

// `000007-step-450`, with `PREFIX-` before it if there is one, and with `.tmp` behind it while it
// is written.
struct CheckpointEntry {
  std::string prefix{};
  std::int64_t number = 0;  // in the order of writing, from 1 on
  std::int64_t step = 0;
  bool is_temporary = false;
  std::string path{};
};

// The name of a checkpoint's folder.
std::string checkpoint_name(const std::string& prefix, std::int64_t number, std::int64_t step);

// True for what may stand before it, or nothing.
bool is_checkpoint_prefix(std::string_view prefix);

// The folders of `folder`, or of `FOLDER/PREFIX`, that have such names, newest first; everything
// else is not ours. Empty if there is no such folder. Throws FileError if it cannot be read.
std::vector<CheckpointEntry> scan_checkpoints(const std::string& folder);

// Keeps other processes from writing checkpoints into a folder for as long as it lives. The system
// lets go of it when the process dies, so it is never left behind.
class FolderLock {
 public:
  // Throws FileError if another one has it.
  explicit FolderLock(const std::string& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  // False on file systems that have no locks.
  bool is_held() const { return held_; }

 private:
  int folder_ = -1;
  bool held_ = false;
};

// Removes the given files of a checkpoint in this order, its manifest, and its folder. Files that
// are missing are passed over; a folder in which something else lies stays. Returns an errno.
int remove_checkpoint(const std::string& path, const std::vector<std::string>& file_names);

// Removes what a process that died left half-written: files by mezzo's names only.
int remove_temporary(const std::string& path);

// The manifest of the checkpoint at `path`. Throws FileError.
Manifest parse_manifest_of(const std::string& path);

// The same, and compares the sizes of all files with it.
Manifest read_manifest(const std::string& path);

// The sound ones with a score, best first; of equal ones the oldest first.
std::vector<CheckpointInfo> best_first(std::vector<CheckpointInfo> infos, KeepBest best);

}  // namespace mezzo::io

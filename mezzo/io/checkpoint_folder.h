// The folder that holds checkpoints: their names, their order, and the lock of the writer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/io/checkpoint.h"
#include "mezzo/io/checkpoint_manifest.h"

namespace mezzo::io {

// A name such as `000007-step-450`, with `PREFIX-` in front if there is a prefix, and followed by
// `.tmp` while the checkpoint is being written.
struct CheckpointEntry {
  std::string prefix{};
  std::int64_t number = 0;  // in the order of writing, from 1 on
  std::int64_t step = 0;
  bool is_temporary = false;
  std::string path{};
};

// The name of a checkpoint's folder.
std::string checkpoint_name(const std::string& prefix, std::int64_t number, std::int64_t step);

// True for a valid prefix, including the empty one.
bool is_checkpoint_prefix(std::string_view prefix);

// The checkpoint folders in `folder`, or of the series `FOLDER/PREFIX`, newest first. Anything else
// was not written by mezzo and is ignored. Empty if there is no such folder. Throws FileError if it
// cannot be read.
std::vector<CheckpointEntry> scan_checkpoints(const std::string& folder);

// Keeps other processes from writing checkpoints into a folder for as long as it lives. The system
// releases the lock when the process dies, so none is ever left over.
class FolderLock {
 public:
  // Throws FileError if another process holds the lock.
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

// Removes the given files of a checkpoint in this order, then its manifest and its folder. Missing
// files are skipped; a folder that still holds something else stays. Returns an errno.
int remove_checkpoint(const std::string& path, const std::vector<std::string>& file_names);

// Removes what a process that died left half-written, but only files with mezzo's names.
int remove_temporary(const std::string& path);

// The manifest of the checkpoint at `path`. Throws FileError.
Manifest parse_manifest_of(const std::string& path);

// Like parse_manifest_of(), and compares the sizes of all files with the manifest.
Manifest read_manifest(const std::string& path);

// The sound checkpoints with a score, best first; the oldest first among equal scores.
std::vector<CheckpointInfo> best_first(std::vector<CheckpointInfo> infos, KeepBest best);

}  // namespace mezzo::io

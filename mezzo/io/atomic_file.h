// Files that are replaced as a whole, so that a failed or interrupted write loses nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::io {

// A file that is being written. The bytes go to `PATH.tmp.<pid>` in the same folder. commit() makes
// them durable and renames the temporary in one step, so that readers see the old contents or the
// new, never a part. Without commit() the temporary is removed and the old file stays as it was.
//
// The new file takes the permissions of the file that it replaces. A symbolic link to a file is
// replaced, not followed. Two concurrent writers of one path are not supported: at most one of them
// commits.
//
// All failures are FileErrors `[op] PATH: what failed: the system's text. What to do.`
class AtomicFile {
 public:
  // Creates the temporary. Throws FileError if it cannot be created, or if the path names, even
  // through a link, something that is not a regular file, such as a folder or a device. Error
  // messages begin with `op`.
  explicit AtomicFile(std::string path, std::string_view op = "file");
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Removes the temporary unless commit() succeeded.
  ~AtomicFile();

  // Appends bytes. Throws FileError, for example if the disk is full.
  void write(std::span<const std::byte> bytes);

  // Replaces bytes that were written before: `bytes` go to `place`, counted from the beginning, and
  // lie within the file so far. For a header that is known at the end. Throws FileError.
  void overwrite(std::uint64_t place, std::span<const std::byte> bytes);

  // Flushes the contents to the disk, renames the temporary, and flushes the folder to the disk.
  // Throws FileError; the old file is then still there, unless the message says that only the
  // folder could not be synchronised. Closes the file: writing or committing after that is an
  // ArgumentError.
  void commit();

  const std::string& path() const { return path_; }

 private:
  void check_open() const;
  bool owns_temporary() const;

  std::string path_;
  std::string temporary_;
  std::string op_;
  int file_ = -1;
  std::uint64_t device_ = 0;  // with inode_: identifies the temporary
  std::uint64_t inode_ = 0;
  bool committed_ = false;
};

// Writes a whole file through AtomicFile. Throws what AtomicFile throws.
void write_file(const std::string& path, std::span<const std::byte> bytes,
                std::string_view op = "file");

// Throws FileError if such a file could not be written. Call it before long work, not after.
void check_writable(const std::string& path, std::string_view op = "file");

// Throws FileError if no file could be created in a folder, which need not exist. Everything that
// the check creates is removed again.
void check_folder_writable(const std::string& folder, std::string_view op = "file");

}  // namespace mezzo::io

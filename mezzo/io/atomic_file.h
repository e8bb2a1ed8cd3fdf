// Files that are replaced as a whole: a failed or interrupted write loses nothing that was there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::io {

// A file in the making. What is written goes to `PATH.tmp.<pid>` in the same folder; commit() makes
// it durable and gives it its name in one step, so that others see the old contents or the new,
// never a part. Without commit() the temporary is removed and the old file stays as it was.
//
// A file that is replaced passes on its permissions. A symbolic link to a file is replaced, not
// followed.
// Two writers of one path at the same time are not served: at most one of them commits.
//
// All failures are FileErrors `[op] PATH: what failed: the system's text. What to do.`
class AtomicFile {
 public:
  // Creates the temporary. Throws FileError if it cannot be created, and if something that is not a
  // regular file, such as a folder or a device, has the name, be it by way of a link. `op` is what
  // errors begin with.
  explicit AtomicFile(std::string path, std::string_view op = "file");
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Removes the temporary unless commit() succeeded.
  ~AtomicFile();

  // Appends bytes. Throws FileError, for example if the disk is full.
  void write(std::span<const std::byte> bytes);

  // Brings the contents to the disk, renames the temporary, and brings the folder to the disk.
  // Throws FileError; the old file is then still there, unless the message says that only the
  // folder could not be synchronised. Closes the file: to write or commit after that is an
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
  std::uint64_t device_ = 0;  // with inode_: which file the temporary is
  std::uint64_t inode_ = 0;
  bool committed_ = false;
};

// Writes a whole file through AtomicFile. Throws FileError as it does.
void write_file(const std::string& path, std::span<const std::byte> bytes,
                std::string_view op = "file");

// Throws FileError if such a file could not be written: better before the work than after.
void check_writable(const std::string& path, std::string_view op = "file");

// Throws FileError if no file could be put into a folder, which need not be there. What is made to
// find that out goes again.
void check_folder_writable(const std::string& folder, std::string_view op = "file");

}  // namespace mezzo::io

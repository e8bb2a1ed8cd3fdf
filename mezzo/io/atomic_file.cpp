#include "mezzo/io/atomic_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/io/file_calls.h"

namespace mezzo::io {
namespace {

namespace fs = std::filesystem;

// Whether the name belongs to something that must stay, itself or through links. /dev/stdout is
// such a thing: a command that replaced it would take it from every other program.
bool is_no_file(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode);
}

// The missing folders of a path. They are removed at the end if they are empty.
class MissingFolders {
 public:
  explicit MissingFolders(const std::string& folder) {
    std::error_code ignored;
    fs::path path(folder);
    if (!path.has_filename()) path = path.parent_path();  // of `run/`
    for (; !path.empty() && !fs::exists(path, ignored); path = path.parent_path()) {
      innermost_first_.push_back(path.string());
    }
  }
  ~MissingFolders() {
    for (const std::string& path : innermost_first_) static_cast<void>(remove_folder(path));
  }
  MissingFolders(const MissingFolders&) = delete;
  MissingFolders& operator=(const MissingFolders&) = delete;

 private:
  std::vector<std::string> innermost_first_;
};

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string_view op)
    : path_(std::move(path)), temporary_(concat(path_, ".tmp.", ::getpid())), op_(op) {
  if (is_no_file(path_)) {
    fail<FileError>(op_, path_, ": cannot be replaced: it is not a regular file. Check the path");
  }
  // Only a killed process that had the same id leaves this name behind. The file is removed rather
  // than reused, since it could be a link to something else.
  static_cast<void>(remove_file(temporary_));
  if (const int error = create_file(temporary_, file_); error != 0) {
    fail_file(op_, path_, "cannot be created", error);
  }
  struct stat created {};
  if (::fstat(file_, &created) != 0) {
    const int error = errno;
    static_cast<void>(remove_file(temporary_));
    static_cast<void>(close_file(file_, temporary_));
    fail_file(op_, path_, "cannot be created", error);
  }
  device_ = created.st_dev;
  inode_ = created.st_ino;
  // Where this is refused (another owner, a file system without permissions), the default stays.
  struct stat old {};
  if (::lstat(path_.c_str(), &old) == 0 && S_ISREG(old.st_mode)) {
    static_cast<void>(::fchmod(file_, old.st_mode & 0777U));
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_ && owns_temporary()) static_cast<void>(remove_file(temporary_));
  if (file_ >= 0) static_cast<void>(close_file(file_, temporary_));
}

void AtomicFile::check_open() const {
  check_arg(file_ >= 0, op_, path_,
            ": commit() has closed the file. Create another AtomicFile to write it again");
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  check_open();
  if (const int error = write_all(file_, temporary_, bytes); error != 0) {
    fail_file(op_, path_, "cannot be written", error);
  }
}

void AtomicFile::overwrite(std::uint64_t place, std::span<const std::byte> bytes) {
  check_open();
  if (const int error = io::overwrite(file_, temporary_, place, bytes); error != 0) {
    fail_file(op_, path_, "cannot be written", error);
  }
}

void AtomicFile::commit() {
  check_open();
  if (const int error = sync_file(file_, temporary_); error != 0) {
    fail_file(op_, path_, "cannot be written", error);
  }
  if (!owns_temporary()) {
    fail<FileError>(op_, path_, ": its temporary file was removed: ", temporary_,
                    ". Use one writer at a time");
  }
  // Some network file systems report a full disk only here.
  if (const int error = close_file(file_, temporary_); error != 0) {
    fail_file(op_, path_, "cannot be written", error);
  }
  if (const int error = rename_path(temporary_, path_); error != 0) {
    fail_file(op_, path_, "cannot be replaced", error);
  }
  committed_ = true;
  const std::string folder = fs::path(path_).parent_path().string();
  if (const int error = sync_folder(folder); error != 0) {
    fail_file(op_, path_, "is written, but its folder cannot be synchronised", error);
  }
}

// Another writer of the same path may have replaced the temporary with its own.
bool AtomicFile::owns_temporary() const {
  struct stat found {};
  return ::lstat(temporary_.c_str(), &found) == 0 && found.st_dev == device_ &&
         found.st_ino == inode_;
}

void write_file(const std::string& path, std::span<const std::byte> bytes, std::string_view op) {
  AtomicFile file(path, op);
  file.write(bytes);
  file.commit();
}

void check_writable(const std::string& path, std::string_view op) {
  const AtomicFile file(path, op);  // creates the temporary and removes it again
}

void check_folder_writable(const std::string& folder, std::string_view op) {
  const MissingFolders missing(folder);
  make_folders(folder, op);
  check_writable(concat(folder, "/probe"), op);
}

}  // namespace mezzo::io

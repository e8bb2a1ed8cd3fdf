#include "mezzo/io/atomic_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mezzo/core/error.h"

namespace mezzo::io {
namespace {

std::string_view advice_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return "Free some space or write elsewhere";
    case EACCES:
    case EPERM: return "Check the permissions of the folder";
    case EROFS: return "Write to another folder";
    case ENOENT:
    case ENOTDIR: return "Check that the folder exists";
    case ENAMETOOLONG: return "Choose a shorter name";
    default: return "Check the disk";
  }
}

// Calls a system function again for as long as a signal interrupts it.
template <class Call>
auto retry(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace

void AtomicFile::fail_with(std::string_view what, int error) const {
  fail<FileError>(op_, path_, ": ", what, ": ", std::generic_category().message(error), ". ",
                  advice_for(error));
}

AtomicFile::AtomicFile(std::string path, std::string_view op)
    : path_(std::move(path)), temporary_(concat(path_, ".tmp.", ::getpid())), op_(op) {
  struct stat old {};
  const bool replaces = ::lstat(path_.c_str(), &old) == 0;
  if (replaces && !S_ISREG(old.st_mode) && !S_ISLNK(old.st_mode)) {
    fail<FileError>(op_, path_, ": cannot be replaced: it is not a regular file. Check the path");
  }
  // Only a process that was killed and had the same id leaves this name behind. Removed rather than
  // reused: it could be a link to something else.
  ::unlink(temporary_.c_str());
  file_ = retry(
      [&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  if (file_ < 0) fail_with("cannot be created", errno);
  struct stat created {};
  if (::fstat(file_, &created) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    close_file();
    fail_with("cannot be created", error);
  }
  device_ = created.st_dev;
  inode_ = created.st_ino;
  // Where it is refused (another owner, a file system without permissions) the default stays.
  if (replaces && S_ISREG(old.st_mode)) {
    static_cast<void>(::fchmod(file_, old.st_mode & 0777U));
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_ && owns_temporary()) ::unlink(temporary_.c_str());
  close_file();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = retry([&] { return ::write(file_, bytes.data(), bytes.size()); });
    if (written < 0) fail_with("cannot be written", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (retry([&] { return ::fsync(file_); }) != 0) fail_with("cannot be written", errno);
  if (!owns_temporary()) {
    fail<FileError>(op_, path_, ": its temporary file was taken away: ", temporary_,
                    ". Let one writer at a time write it");
  }
  // Some network file systems report a full disk only here.
  if (::close(std::exchange(file_, -1)) != 0 && errno != EINTR) {
    fail_with("cannot be written", errno);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_with("cannot be replaced", errno);
  committed_ = true;
  sync_folder();
}

// Another writer of the same path may have replaced the temporary by its own.
bool AtomicFile::owns_temporary() const {
  struct stat found {};
  return ::lstat(temporary_.c_str(), &found) == 0 && found.st_dev == device_ &&
         found.st_ino == inode_;
}

void AtomicFile::sync_folder() const {
  std::string folder = std::filesystem::path(path_).parent_path().string();
  if (folder.empty()) folder = ".";
  const int handle =
      retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  // A folder that may be written but not read cannot be synchronised; the file is there all the
  // same.
  if (handle < 0 && errno == EACCES) return;
  int error = handle < 0 ? errno : 0;
  if (handle >= 0) {
    if (retry([&] { return ::fsync(handle); }) != 0) error = errno;
    ::close(handle);
  }
  // EINVAL: a file system that does not synchronise folders.
  if (error != 0 && error != EINVAL) {
    fail_with("is written, but its folder cannot be synchronised", error);
  }
}

void AtomicFile::close_file() noexcept {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

void write_file(const std::string& path, std::span<const std::byte> bytes, std::string_view op) {
  AtomicFile file(path, op);
  file.write(bytes);
  file.commit();
}

}  // namespace mezzo::io

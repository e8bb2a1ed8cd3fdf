#include "mezzo/io/file_calls.h"

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

FileCallHook& hook() {
  static FileCallHook hook;
  return hook;
}

int ask_hook(const FileCallInfo& info) { return hook() ? hook()(info) : 0; }

// Repeats a system call for as long as a signal interrupts it.
template <class Call>
auto retry(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

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
    case EISDIR: return "It is a folder: give a file";
    case EEXIST: return "Another file has this name: choose another name";
    case ENAMETOOLONG: return "Choose a shorter name";
    default: return "Check the disk";
  }
}

bool is_disk_failure(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
}

int error_of(int result) { return result < 0 ? errno : 0; }

}  // namespace

void fail_file(std::string_view op, std::string_view path, std::string_view what, int error) {
  const std::string text = concat(path, ": ", what, ": ", std::generic_category().message(error),
                                  ". ", advice_for(error));
  if (is_disk_failure(error)) fail<DiskError>(op, text);
  fail<FileError>(op, text);
}

void set_file_call_hook(FileCallHook new_hook) { hook() = std::move(new_hook); }

int create_file(const std::string& path, int& file) {
  if (const int error = ask_hook({.call = FileCall::kCreate, .path = path}); error != 0) {
    return error;
  }
  file = retry([&] {
    return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  });
  return error_of(file);
}

int write_all(int file, const std::string& path, std::span<const std::byte> bytes) {
  if (bytes.empty()) return 0;
  const int refused =
      ask_hook({.call = FileCall::kWrite, .path = path, .file = file, .bytes = bytes});
  if (refused != 0) return refused;
  while (!bytes.empty()) {
    const ssize_t written = retry([&] { return ::write(file, bytes.data(), bytes.size()); });
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

int overwrite(int file, const std::string& path, std::uint64_t place,
              std::span<const std::byte> bytes) {
  const int refused =
      ask_hook({.call = FileCall::kWrite, .path = path, .file = file, .bytes = bytes});
  if (refused != 0) return refused;
  // A file that is open for appending takes all bytes at its end, also those with a place.
  const int flags = ::fcntl(file, F_GETFL);
  if (flags < 0 || ::fcntl(file, F_SETFL, flags & ~O_APPEND) < 0) return errno;
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t written = retry(
        [&] { return ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(place)); });
    if (written < 0) {
      error = errno;
    } else {
      place += static_cast<std::uint64_t>(written);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }
  const int put_back = error_of(::fcntl(file, F_SETFL, flags));
  return error != 0 ? error : put_back;
}

int sync_file(int file, const std::string& path) {
  if (const int error = ask_hook({.call = FileCall::kSync, .path = path, .file = file});
      error != 0) {
    return error;
  }
  return error_of(retry([&] { return ::fsync(file); }));
}

int sync_folder(const std::string& path) {
  if (const int error = ask_hook({.call = FileCall::kSyncFolder, .path = path}); error != 0) {
    return error;
  }
  const char* name = path.empty() ? "." : path.c_str();
  const int handle = retry([&] { return ::open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  // A folder that may be written but not read cannot be synchronised; its files are there all the
  // same.
  if (handle < 0) return errno == EACCES ? 0 : errno;
  const int error = error_of(retry([&] { return ::fsync(handle); }));
  ::close(handle);
  // EINVAL: this file system does not synchronise folders.
  return error == EINVAL ? 0 : error;
}

int truncate_file(int file, const std::string& path, std::uint64_t size) {
  if (const int error = ask_hook({.call = FileCall::kTruncate, .path = path, .file = file});
      error != 0) {
    return error;
  }
  return error_of(retry([&] { return ::ftruncate(file, static_cast<off_t>(size)); }));
}

int close_file(int& file, const std::string& path) {
  const int handle = std::exchange(file, -1);
  const int refused = ask_hook({.call = FileCall::kClose, .path = path, .file = handle});
  const int error = error_of(::close(handle));
  if (refused != 0) return refused;
  // The handle is closed even if a signal interrupted the call.
  return error == EINTR ? 0 : error;
}

int rename_path(const std::string& from, const std::string& to) {
  if (const int error = ask_hook({.call = FileCall::kRename, .path = to}); error != 0) {
    return error;
  }
  return error_of(::rename(from.c_str(), to.c_str()));
}

int remove_file(const std::string& path) {
  if (const int error = ask_hook({.call = FileCall::kRemove, .path = path}); error != 0) {
    return error;
  }
  return error_of(::unlink(path.c_str()));
}

int make_folder(const std::string& path) {
  if (const int error = ask_hook({.call = FileCall::kMakeFolder, .path = path}); error != 0) {
    return error;
  }
  return error_of(::mkdir(path.c_str(), 0777));
}

int remove_folder(const std::string& path) {
  if (const int error = ask_hook({.call = FileCall::kRemoveFolder, .path = path}); error != 0) {
    return error;
  }
  return error_of(::rmdir(path.c_str()));
}

void make_folders(const std::string& folder, std::string_view op) {
  namespace fs = std::filesystem;
  fs::path path(folder);
  if (!path.has_filename()) path = path.parent_path();  // for a path such as `run/`
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return;
  const fs::path parent = path.parent_path();
  make_folders(parent.string(), op);
  if (const int made = make_folder(path.string()); made != 0 && !fs::is_directory(path, error)) {
    fail_file(op, path.string(), "cannot be created", made);
  }
  if (const int synced = sync_folder(parent.string()); synced != 0) {
    fail_file(op, path.string(), "is created, but the folder above it cannot be synchronised",
              synced);
  }
}

}  // namespace mezzo::io

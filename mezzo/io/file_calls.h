// The system calls that change files, in one place, so that tests can stop or fail each of them.
// They return an errno, 0 if all went well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::io {

// Throws FileError `[op] path: what: the system's text. What to do.`, or DiskError if the disk is
// full or fails.
[[noreturn]] void fail_file(std::string_view op, std::string_view path, std::string_view what,
                            int error);

// Creates a file that must not exist, and opens it for writing as `file`.
int create_file(const std::string& path, int& file);
// Appends all bytes to an open file; the test hook is told `path`.
int write_all(int file, const std::string& path, std::span<const std::byte> bytes);
// Replaces bytes that an open file has from `place` on.
int overwrite(int file, const std::string& path, std::uint64_t place,
              std::span<const std::byte> bytes);
// Flushes an open file, or the names in a folder ("" is the current one), to the disk.
int sync_file(int file, const std::string& path);
int sync_folder(const std::string& path);
int truncate_file(int file, const std::string& path, std::uint64_t size);
// Closes the handle and sets it to -1.
int close_file(int& file, const std::string& path);
int rename_path(const std::string& from, const std::string& to);
int remove_file(const std::string& path);
int make_folder(const std::string& path);
// Removes an empty folder.
int remove_folder(const std::string& path);

// Makes a folder and its missing parents; each is on the disk before anything is put into it.
// Throws FileError beginning with `[op]`.
void make_folders(const std::string& folder, std::string_view op);

enum class FileCall : std::uint8_t {
  kCreate,
  kWrite,
  kSync,
  kSyncFolder,
  kTruncate,
  kClose,
  kRename,
  kRemove,
  kMakeFolder,
  kRemoveFolder,
};

// A call about to be made.
struct FileCallInfo {
  FileCall call = FileCall::kCreate;
  std::string_view path{};
  int file = -1;                       // the handle, if a file is open
  std::span<const std::byte> bytes{};  // written by kWrite
};

// For tests: called before each system call above. If it returns an errno other than 0, the call
// fails without being made. Must not be set while another thread uses files. An empty function
// removes the hook.
using FileCallHook = std::function<int(const FileCallInfo&)>;
void set_file_call_hook(FileCallHook hook);

}  // namespace mezzo::io

// The calls that change files, in one place: what they report is an errno, 0 if all went well, and
// tests can stop or fail each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::io {

// Throws FileError `[op] path: what: the system's text. What to do.`; DiskError for a disk that is
// full or fails.
[[noreturn]] void fail_file(std::string_view op, std::string_view path, std::string_view what,
                            int error);

// Creates a file that must not exist; gives its handle for writing.
int create_file(const std::string& path, int& file);
// Writes all bytes at the end of an open file; `path` is what a hook is told.
int write_all(int file, const std::string& path, std::span<const std::byte> bytes);
// Brings an open file, or the names in a folder ("" is the current one), to the disk.
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

// Makes a folder and those above it that are missing; each is on the disk before anything is put
// into it. Throws FileError beginning with `[op]`.
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
  int file = -1;                       // the handle, of an open file
  std::span<const std::byte> bytes{};  // of kWrite
};

// For tests: asked before every call above; with an errno other than 0 the call fails without being
// made. Not to be set while another thread uses files. An empty function takes it away.
using FileCallHook = std::function<int(const FileCallInfo&)>;
void set_file_call_hook(FileCallHook hook);

}  // namespace mezzo::io

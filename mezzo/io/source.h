// Byte sources for the readers of file formats: a file, or memory in place of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::io {

// A regular file that is open for reading. Whoever opened it closes the handle.
struct OpenFile {
  int file = -1;
  std::uint64_t size = 0;  // in bytes
};
// Throws FileError `[op] PATH: ...` if the file cannot be opened or is not a regular file.
OpenFile open_regular_file(const std::string& path, std::string_view op);

// Reads a file sequentially. Its size is known before anything is read. All failures are FileErrors
// `[op] PATH: ...`; `op` must outlive the source.
class FileSource {
 public:
  // Throws FileError if the file cannot be opened or is not a regular file.
  FileSource(const std::string& path, std::string_view op);
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource();

  const std::string& name() const { return path_; }
  std::uint64_t size() const { return size_; }
  // The number of bytes not yet read.
  std::uint64_t left() const { return left_; }
  // Fills `out`. Throws FileError if the file ends first, or cannot be read.
  void read(std::span<std::byte> out);

 private:
  std::string path_;
  std::string_view op_;
  int file_ = -1;
  std::uint64_t size_ = 0;
  std::uint64_t left_ = 0;
};

// Like FileSource, for bytes in memory. No more may be read than are left.
class MemorySource {
 public:
  MemorySource(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes), name_(name), size_(bytes.size()) {}

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  std::uint64_t left() const { return bytes_.size(); }
  void read(std::span<std::byte> out);

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  std::uint64_t size_;
};

}  // namespace mezzo::io

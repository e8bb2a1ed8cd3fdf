// MappedFile: the bytes of a file, each read when it is first touched.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::io {

// A file that is mapped into memory, read-only. The system reads pages as they are touched and
// drops them when it needs their memory, so the file may be larger than the memory. It must not be
// cut while it is mapped: the system ends a process that touches what is no longer there.
class MappedFile {
 public:
  // Throws FileError `[op] PATH: ...` if the file cannot be opened, is not a regular file or cannot
  // be mapped.
  MappedFile(const std::string& path, std::string_view op);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  // Empty for an empty file. They begin at a multiple of the system's page.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_{};
};

}  // namespace mezzo::io

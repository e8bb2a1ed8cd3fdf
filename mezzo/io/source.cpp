#include "mezzo/io/source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mezzo/core/error.h"

namespace mezzo::io {

OpenFile open_regular_file(const std::string& path, std::string_view op) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    fail<FileError>(op, path, ": cannot be opened: ", std::generic_category().message(errno),
                    ". Check the path and its permissions");
  }
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    fail<FileError>(op, path, ": not a regular file. Check the path");
  }
  return {.file = file, .size = static_cast<std::uint64_t>(status.st_size)};
}

FileSource::FileSource(const std::string& path, std::string_view op) : path_(path), op_(op) {
  const OpenFile opened = open_regular_file(path, op);
  file_ = opened.file;
  size_ = left_ = opened.size;
}

FileSource::~FileSource() { ::close(file_); }

void FileSource::read(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::read(file_, out.data(), out.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail<FileError>(op_, path_, ": cannot be read: ", std::generic_category().message(errno),
                      ". Check the disk");
    }
    if (got == 0) {
      fail<FileError>(op_, path_, ": short file: it ended ", out.size(),
                      " bytes early: it changed while it was read. Read it again");
    }
    out = out.subspan(static_cast<std::size_t>(got));
    left_ -= std::min(left_, static_cast<std::uint64_t>(got));
  }
}

void MemorySource::read(std::span<std::byte> out) {
  MEZZO_INVARIANT(out.size() <= bytes_.size());
  if (out.empty()) return;
  std::memcpy(out.data(), bytes_.data(), out.size());
  bytes_ = bytes_.subspan(out.size());
}

}  // namespace mezzo::io

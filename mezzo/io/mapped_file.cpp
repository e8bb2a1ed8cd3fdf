#include "mezzo/io/mapped_file.h"

#include <cerrno>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/io/source.h"

namespace mezzo::io {

MappedFile::MappedFile(const std::string& path, std::string_view op) : path_(path) {
  const OpenFile opened = open_regular_file(path, op);
  const auto size = static_cast<std::size_t>(opened.size);
  // An empty file cannot be mapped.
  void* const begin =
      size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_SHARED, opened.file, 0) : nullptr;
  const int error = errno;
  ::close(opened.file);  // the mapping stays
  if (begin == MAP_FAILED) {
    fail<FileError>(op, path,
                    ": cannot be mapped into memory: ", std::generic_category().message(error),
                    ". Put it on another file system");
  }
  if (size > 0) bytes_ = {static_cast<const std::byte*>(begin), size};
}

MappedFile::~MappedFile() {
  // munmap() takes what mmap() gave, which is not const.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace mezzo::io

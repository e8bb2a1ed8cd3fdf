#include "mezzo/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/io/safetensors_header.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::string_view kOp = "safetensors";

// Reads a file in order. Its size is known before anything is read.
class FileSource {
 public:
  explicit FileSource(const std::string& path) : path_(path) {
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file_ < 0) {
      fail<FileError>(kOp, path_, ": cannot be opened: ", std::generic_category().message(errno),
                      ". Check the path and its permissions");
    }
    struct stat status {};
    if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(file_);
      fail<FileError>(kOp, path_, ": not a regular file. Check the path");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() { ::close(file_); }

  const std::string& name() const { return path_; }
  std::uint64_t size() const { return size_; }

  void read(std::span<std::byte> out) {
    while (!out.empty()) {
      const ssize_t got = ::read(file_, out.data(), out.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        fail<FileError>(kOp, path_, ": cannot be read: ", std::generic_category().message(errno),
                        ". Check the disk");
      }
      if (got == 0) {
        fail<FileError>(kOp, path_, ": short file: it ended ", out.size(),
                        " bytes early: it changed while it was read. Read it again");
      }
      out = out.subspan(static_cast<std::size_t>(got));
    }
  }

 private:
  std::string path_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

// The same for bytes in memory.
class MemorySource {
 public:
  MemorySource(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes), name_(name), size_(bytes.size()) {}

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }

  void read(std::span<std::byte> out) {
    MEZZO_INVARIANT(out.size() <= bytes_.size());
    if (out.empty()) return;
    std::memcpy(out.data(), bytes_.data(), out.size());
    bytes_ = bytes_.subspan(out.size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::string name_;
  std::uint64_t size_;
};

// A bool that is neither 0 nor 1 is undefined behaviour in every program that reads it.
void check_bools(std::string_view source, const NamedTensor& named,
                 std::span<const std::byte> bytes) {
  const auto odd = std::ranges::find_if(bytes, [](std::byte b) { return b > std::byte{1}; });
  if (odd == bytes.end()) return;
  fail<FileError>(kOp, source, ": element ", odd - bytes.begin(), " of tensor ",
                  in_quotes(named.name), " is ", std::to_integer<int>(*odd),
                  ", a BOOL is 0 or 1. Copy or download the file again");
}

template <class Source>
SafetensorsFile read_from(Source& source) {
  std::array<std::byte, kSafetensorsPrefix> prefix{};
  const auto first =
      std::span(prefix).first(std::min<std::uint64_t>(source.size(), kSafetensorsPrefix));
  source.read(first);
  std::string text(check_header_length(source.name(), first, source.size()), '\0');
  source.read(std::as_writable_bytes(std::span(text)));
  SafetensorsHeader header =
      parse_header(source.name(), text, source.size() - kSafetensorsPrefix - text.size());

  SafetensorsFile file;
  file.metadata = std::move(header.metadata);
  file.tensors.reserve(header.entries.size());
  for (SafetensorsEntry& entry : header.entries) {
    NamedTensor named{std::move(entry.name), empty(entry.shape, entry.dtype)};
    MEZZO_INVARIANT(named.tensor.bytes() == entry.end - entry.begin);
    if (const std::size_t size = named.tensor.bytes(); size > 0) {
      const std::span bytes(static_cast<std::byte*>(named.tensor.mutable_raw_data()), size);
      source.read(bytes);
      if (entry.dtype == DType::kBool) check_bools(source.name(), named, bytes);
    }
    file.tensors.push_back(std::move(named));
  }
  return file;
}

// The tensor itself if its elements lie in row-major order, else a copy in which they do.
Tensor row_major(const Tensor& tensor) {
  if (tensor.is_dense()) return tensor;
  Tensor copy = empty(tensor.shape(), tensor.dtype());
  copy_elements(tensor, copy);
  return copy;
}

// Calls write(bytes) for each piece of the file, in order.
template <class Write>
void write_pieces(std::span<const NamedTensor> tensors, const FormattedHeader& header,
                  const Write& write) {
  write(std::as_bytes(std::span(header.bytes)));
  for (const std::size_t index : header.order) {
    const Tensor tensor = row_major(tensors[index].tensor);
    if (tensor.numel() == 0) continue;
    write(std::span(static_cast<const std::byte*>(tensor.raw_data()), tensor.bytes()));
  }
}

}  // namespace

SafetensorsMetadata default_safetensors_metadata() { return {{"format", "pt"}}; }

SafetensorsFile read_safetensors(const std::string& path) {
  FileSource source(path);
  return read_from(source);
}

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, std::string_view source) {
  MemorySource memory(bytes, source);
  return read_from(memory);
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  const FormattedHeader header = format_header(tensors, metadata);
  AtomicFile file(path, kOp);
  write_pieces(tensors, header, [&](std::span<const std::byte> piece) { file.write(piece); });
  file.commit();
}

std::vector<std::byte> serialize_safetensors(std::span<const NamedTensor> tensors,
                                             const SafetensorsMetadata& metadata) {
  const FormattedHeader header = format_header(tensors, metadata);
  std::vector<std::byte> bytes;
  write_pieces(tensors, header, [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

}  // namespace mezzo::io

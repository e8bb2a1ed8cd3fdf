#include "mezzo/io/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/io/npy_header.h"
#include "mezzo/io/row_major.h"
#include "mezzo/io/source.h"

namespace mezzo::io {
namespace {

static_assert(std::endian::native == std::endian::little, "mezzo writes little-endian");

template <class Source>
std::string read_header_text(Source& source) {
  std::array<std::byte, kNpyFixed> fixed{};
  const auto first = std::span(fixed).first(std::min<std::uint64_t>(source.size(), kNpyFixed));
  source.read(first);
  const std::size_t length_bytes = npy_length_bytes(source.name(), first);
  if (source.left() < length_bytes) {
    fail<FileError>(kNpyOp, source.name(), ": short file: it has ", source.size(), " bytes",
                    kCopyAgain);
  }
  std::array<std::byte, 4> bytes{};
  source.read(std::span(bytes).first(length_bytes));
  const auto length = std::bit_cast<std::uint32_t>(bytes);
  if (length > kMaxNpyHeader) {
    fail<FileError>(kNpyOp, source.name(), ": claims a header of ", length, " bytes, at most ",
                    kMaxNpyHeader, " are allowed", kCopyAgain);
  }
  if (length > source.left()) {
    fail<FileError>(kNpyOp, source.name(), ": short file: claims a header of ", length,
                    " bytes, the file has ", source.left(), " for it", kCopyAgain);
  }
  std::string text(length, '\0');
  source.read(std::as_writable_bytes(std::span(text)));
  return text;
}

void reverse_elements(std::span<std::byte> bytes, std::size_t size) {
  for (; !bytes.empty(); bytes = bytes.subspan(size)) std::ranges::reverse(bytes.first(size));
}

// Copies elements whose first dimension is innermost into a tensor in row-major order.
Tensor from_fortran(const Tensor& elements, const Shape& shape) {
  Strides strides = shape;
  std::int64_t stride = 1;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(shape[axis], 1);
  }
  return row_major(alias(elements, shape, strides, 0));
}

template <class Source>
Tensor read_npy_from(Source& source) {
  const std::string text = read_header_text(source);
  const NpyHeader header = parse_npy_header(source.name(), text, source.left());
  const Tensor elements = empty(header.shape, header.dtype);
  if (elements.numel() == 0) return elements;
  const std::span bytes(static_cast<std::byte*>(elements.mutable_raw_data()), elements.bytes());
  source.read(bytes);
  if (header.big_endian) reverse_elements(bytes, size_of(header.dtype));
  if (header.dtype == DType::kBool) {
    if (const std::optional<std::size_t> odd = find_odd_bool(bytes)) {
      fail<FileError>(kNpyOp, source.name(), ": element ", *odd, " is ",
                      std::to_integer<int>(bytes[*odd]), ", a bool is 0 or 1", kCopyAgain);
    }
  }
  return header.fortran_order ? from_fortran(elements, header.shape) : elements;
}

}  // namespace

Tensor read_npy(const std::string& path) {
  FileSource source(path, kNpyOp);
  return read_npy_from(source);
}

Tensor parse_npy(std::span<const std::byte> bytes, std::string_view source) {
  MemorySource memory(bytes, source);
  return read_npy_from(memory);
}

void write_npy(const std::string& path, const Tensor& tensor) {
  write_file(path, serialize_npy(tensor), kNpyOp);
}

std::vector<std::byte> serialize_npy(const Tensor& tensor) {
  const std::string header = format_npy_header(tensor);
  const Tensor dense = row_major(tensor);
  const auto head = std::as_bytes(std::span(header));
  std::vector<std::byte> bytes(head.begin(), head.end());
  if (dense.numel() > 0) {
    const auto* const data = static_cast<const std::byte*>(dense.raw_data());
    bytes.insert(bytes.end(), data, data + dense.bytes());
  }
  return bytes;
}

}  // namespace mezzo::io

#include "mezzo/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/io/row_major.h"
#include "mezzo/io/safetensors_header.h"
#include "mezzo/io/shared_names.h"
#include "mezzo/io/source.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

void check_bools(std::string_view source, const NamedTensor& named,
                 std::span<const std::byte> bytes) {
  const std::optional<std::size_t> odd = find_odd_bool(bytes);
  if (!odd) return;
  fail<FileError>(kSafetensorsOp, source, ": element ", *odd, " of tensor ", in_quotes(named.name),
                  " is ", std::to_integer<int>(bytes[*odd]), ", a BOOL is 0 or 1", kCopyAgain);
}

template <class Source>
SafetensorsFile read_safetensors_from(Source& source) {
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
  restore_names(file);
  return file;
}

// Calls write(bytes) for each piece of the file, in order.
void write_pieces(std::span<const NamedTensor> tensors, const FormattedHeader& header,
                  const ByteSink& write) {
  write(std::as_bytes(std::span(header.bytes)));
  for (const std::size_t index : header.order) {
    const Tensor tensor = row_major(tensors[index].tensor);
    if (tensor.numel() == 0) continue;
    write(std::span(static_cast<const std::byte*>(tensor.raw_data()), tensor.bytes()));
  }
}

}  // namespace

SafetensorsMetadata default_safetensors_metadata() {
  return {{std::string(kSafetensorsFormatKey), "pt"}};
}

SafetensorsFile read_safetensors(const std::string& path) {
  FileSource source(path, kSafetensorsOp);
  return read_safetensors_from(source);
}

SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, std::string_view source) {
  MemorySource memory(bytes, source);
  return read_safetensors_from(memory);
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  const FormattedHeader header = format_header(tensors, metadata);
  AtomicFile file(path, kSafetensorsOp);
  write_pieces(tensors, header, [&](std::span<const std::byte> piece) { file.write(piece); });
  file.commit();
}

void stream_safetensors(std::span<const NamedTensor> tensors, const ByteSink& write,
                        const SafetensorsMetadata& metadata) {
  write_pieces(tensors, format_header(tensors, metadata), write);
}

std::vector<std::byte> serialize_safetensors(std::span<const NamedTensor> tensors,
                                             const SafetensorsMetadata& metadata) {
  std::vector<std::byte> bytes;
  const auto append = [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  };
  stream_safetensors(tensors, append, metadata);
  return bytes;
}

}  // namespace mezzo::io

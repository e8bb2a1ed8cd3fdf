#include "mezzo/io/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "mezzo/core/error.h"
#include "mezzo/io/shared_names.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

struct SafetensorsType {
  DType dtype;
  std::string_view name;
};

// The dtypes that mezzo supports, in the format's order from low to high; files are written from
// high to low. The format has further dtypes.
constexpr SafetensorsType kSafetensorsTypes[] = {
    {DType::kBool, "BOOL"},    {DType::kU8, "U8"},   {DType::kE5m2, "F8_E5M2"},
    {DType::kE4m3, "F8_E4M3"}, {DType::kF16, "F16"}, {DType::kBf16, "BF16"},
    {DType::kI32, "I32"},      {DType::kF32, "F32"}, {DType::kF64, "F64"},
    {DType::kI64, "I64"},
};

const SafetensorsType* find_dtype(std::string_view name) {
  const auto* found = std::ranges::find(kSafetensorsTypes, name, &SafetensorsType::name);
  return found != std::end(kSafetensorsTypes) ? found : nullptr;
}

const SafetensorsType* find_dtype(DType dtype) {
  return std::ranges::find(kSafetensorsTypes, dtype, &SafetensorsType::dtype);
}

std::string known_dtypes() {
  std::string text;
  for (const SafetensorsType& known : kSafetensorsTypes) {
    if (!text.empty()) text += ' ';
    text += known.name;
  }
  return text;
}

// Handles the events of the JSON parser for the header. Only the one layout is accepted, which also
// limits nesting: an object or array in an unexpected place ends the parse.
// The functions without a comment are the parser's events. They never return false; errors throw.
class HeaderEvents {
 public:
  HeaderEvents(std::string_view source, SafetensorsHeader& header)
      : source_(source), header_(header) {}

  bool null() { wrong_value("null"); }
  bool boolean(bool value) { wrong_value(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { wrong_value(concat(value)); }
  bool number_float(double /*value*/, const std::string& text) { wrong_value(in_quotes(text)); }
  bool binary(std::vector<std::uint8_t>& /*value*/) { wrong_value("binary data"); }

  bool number_unsigned(std::uint64_t value) {
    if (place_ == Place::kShape) {
      add_size(value);
    } else if (place_ == Place::kOffsets && offsets_ < 2) {
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      wrong_value(concat(value));
    }
    return true;
  }

  bool string(std::string& value) {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = std::move(value);
    } else if (place_ == Place::kEntry && key_ == "dtype") {
      const SafetensorsType* known = find_dtype(value);
      if (known == nullptr) {
        fail<FileError>(kSafetensorsOp, source_, ": tensor ", in_quotes(entry_.name),
                        " has the dtype ", in_quotes(value), ", mezzo supports ", known_dtypes(),
                        ". Convert the file");
      }
      entry_.dtype = known->dtype;
    } else {
      wrong_value(concat("the text ", in_quotes(value)));
    }
    return true;
  }

  bool key(std::string& name) {
    const bool is_new = place_ == Place::kTop        ? names_.insert(name).second
                        : place_ == Place::kMetadata ? !header_.metadata.contains(name)
                                                     : fields_.insert(name).second;
    if (!is_new) {
      fail<FileError>(kSafetensorsOp, source_, ": ", where(), ": ", in_quotes(name),
                      " occurs twice", kCopyAgain);
    }
    if (place_ == Place::kEntry && name != "dtype" && name != "shape" && name != "data_offsets") {
      fail<FileError>(kSafetensorsOp, source_, ": ", where(), ": unknown field ", in_quotes(name),
                      ", expected dtype, shape and data_offsets. Check the program that wrote it");
    }
    key_ = std::move(name);
    return true;
  }

  bool start_object(std::size_t /*count*/) {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && key_ == kSafetensorsMetadataKey) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kEntry;
      entry_ = SafetensorsEntry{};
      entry_.name = key_;
      fields_.clear();
    } else {
      wrong_value("an object");
    }
    return true;
  }

  bool end_object() {
    if (place_ == Place::kEntry) {
      if (fields_.size() != 3) {
        fail<FileError>(kSafetensorsOp, source_, ": ", where(), ": ", fields_.size(),
                        " fields, expected dtype, shape and data_offsets", kCopyAgain);
      }
      header_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::kTop ? Place::kStart : Place::kTop;
    return true;
  }

  bool start_array(std::size_t /*count*/) {
    if (place_ != Place::kEntry || key_ == "dtype") wrong_value("a list");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    offsets_ = 0;
    return true;
  }

  bool end_array() {
    if (place_ == Place::kOffsets && offsets_ != 2) {
      fail<FileError>(kSafetensorsOp, source_, ": ", where(), ": ", offsets_,
                      " data offsets, expected begin and end", kCopyAgain);
    }
    place_ = Place::kEntry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) {
    fail<FileError>(kSafetensorsOp, source_, ": the header is not JSON, up to its byte ", position,
                    kCopyAgain);
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kEntry, kShape, kOffsets };

  std::string where() const {
    switch (place_) {
      case Place::kStart:
      case Place::kTop: return "the header";
      case Place::kMetadata: return "__metadata__";
      case Place::kEntry:
      case Place::kShape:
      case Place::kOffsets: return concat("tensor ", in_quotes(entry_.name));
    }
    return "the header";
  }

  [[noreturn]] void wrong_value(std::string_view found) const {
    std::string_view expected = "an object";
    if (place_ == Place::kMetadata) expected = "text";
    if (place_ == Place::kEntry) expected = key_ == "dtype" ? "text" : "a list";
    if (place_ == Place::kShape) expected = "an integer of at least 0";
    if (place_ == Place::kOffsets) expected = "two integers of at least 0";
    fail<FileError>(kSafetensorsOp, source_, ": ", where(), ": found ", found, " as ",
                    in_quotes(key_), ", expected ", expected, kCopyAgain);
  }

  void add_size(std::uint64_t value) {
    if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      fail<FileError>(kSafetensorsOp, source_, ": ", where(), ": impossible size: ", value,
                      kCopyAgain);
    }
    if (entry_.shape.rank() == kMaxRank) {
      fail<FileError>(
          kSafetensorsOp, source_, ": ", where(), " has more than ", kMaxRank,
          " dimensions, the most that mezzo supports. Reshape it in the program that wrote it");
    }
    entry_.shape.push_back(static_cast<std::int64_t>(value));
  }

  std::string_view source_;
  SafetensorsHeader& header_;
  Place place_ = Place::kStart;
  std::string key_;
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> fields_;  // of entry_, seen so far
  SafetensorsEntry entry_;
  int offsets_ = 0;
};

void check_text(std::string_view source, std::string_view text) {
  if (const std::size_t odd = find_invalid_utf8(text); odd != std::string_view::npos) {
    fail<FileError>(kSafetensorsOp, source, ": the header is not UTF-8: its byte ", odd, " is ",
                    static_cast<unsigned>(static_cast<unsigned char>(text[odd])), kCopyAgain);
  }
  // The parser takes a zero byte for the end of its input and skips a byte order mark.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    fail<FileError>(kSafetensorsOp, source, ": the header is not JSON: its byte ", zero, " is 0",
                    kCopyAgain);
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') {
    fail<FileError>(kSafetensorsOp, source, ": the header is not a JSON object: it begins with ",
                    in_quotes(text, 8), ", expected '{'", kCopyAgain);
  }
}

// The bytes of the data, from dtype and shape. Even if a size is 0, the others must be valid, since
// strides are computed from them.
std::uint64_t bytes_of(std::string_view source, const SafetensorsEntry& entry) {
  std::uint64_t bytes = size_of(entry.dtype);
  for (const std::int64_t size : entry.shape) {
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (bytes > std::numeric_limits<std::int64_t>::max() / factor) {
      fail<FileError>(kSafetensorsOp, source, ": tensor ", in_quotes(entry.name),
                      ": impossible size: ", entry.shape, kCopyAgain);
    }
    bytes *= factor;
  }
  return std::ranges::count(entry.shape, 0) > 0 ? 0 : bytes;
}

// Every byte of the data belongs to exactly one tensor. So nothing can hide in a file, and reading
// it takes no more memory than it has bytes.
void check_places(std::string_view source, const std::vector<SafetensorsEntry>& entries,
                  std::uint64_t data_size) {
  std::uint64_t place = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != place || entry.end < entry.begin) {
      fail<FileError>(kSafetensorsOp, source, ": tensor ", in_quotes(entry.name),
                      ": its data offsets are ", entry.begin, " to ", entry.end, ", which ",
                      entry.end < entry.begin ? "go backwards"
                      : entry.begin < place   ? "overlap the tensor before"
                                              : "leave a hole before it",
                      ", expected ", place, " on", kCopyAgain);
    }
    const std::uint64_t bytes = bytes_of(source, entry);
    if (entry.end - entry.begin != bytes) {
      fail<FileError>(kSafetensorsOp, source, ": tensor ", in_quotes(entry.name), ": ",
                      find_dtype(entry.dtype)->name, entry.shape, " takes ", bytes,
                      " bytes, its data offsets span ", entry.end - entry.begin, kCopyAgain);
    }
    place = entry.end;
  }
  if (place != data_size) {
    fail<FileError>(kSafetensorsOp, source, ": ", place > data_size ? "short file" : "too long",
                    ": the header claims ", place, " bytes of data, the file has ", data_size,
                    kCopyAgain);
  }
}

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(); }

void check_tensors(std::span<const NamedTensor> tensors) {
  std::set<std::string_view> names;
  for (const NamedTensor& named : tensors) {
    check_arg(find_invalid_utf8(named.name) == std::string_view::npos, kSafetensorsOp,
              "a tensor's name is not UTF-8. Rename it");
    check_arg(named.name != kSafetensorsMetadataKey, kSafetensorsOp, "no tensor can be called ",
              kSafetensorsMetadataKey, ". Rename it");
    check_arg(names.insert(named.name).second, kSafetensorsOp, "two tensors are called ",
              in_quotes(named.name), ". Rename one or leave it out");
    check_arg(named.tensor.defined(), kSafetensorsOp, "tensor ", in_quotes(named.name),
              " is undefined. Assign it or leave it out");
  }
}

std::string format_metadata(const SafetensorsMetadata& metadata) {
  std::string text = concat('"', kSafetensorsMetadataKey, "\":{");
  for (const auto& [key, value] : metadata) {
    check_arg(find_invalid_utf8(key) == std::string_view::npos &&
                  find_invalid_utf8(value) == std::string_view::npos,
              kSafetensorsOp, "the metadata is not UTF-8: ", in_quotes(key), ". Encode it");
    if (text.back() != '{') text += ',';
    text += json_text(key) + ":" + json_text(value);
  }
  return text + "}";
}

}  // namespace

std::uint64_t check_header_length(std::string_view source, std::span<const std::byte> prefix,
                                  std::uint64_t file_size) {
  if (prefix.size() < kSafetensorsPrefix) {
    fail<FileError>(kSafetensorsOp, source, ": short file: it has ", file_size,
                    " bytes, the length of the header alone takes ", kSafetensorsPrefix,
                    kCopyAgain);
  }
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), kSafetensorsPrefix);
  if (length > kMaxSafetensorsHeader) {
    fail<FileError>(kSafetensorsOp, source, ": not a safetensors file: it claims a header of ",
                    length, " bytes, at most ", kMaxSafetensorsHeader,
                    " are allowed. Check that this is the right file");
  }
  if (length > file_size - kSafetensorsPrefix) {
    fail<FileError>(kSafetensorsOp, source, ": short file: it claims a header of ", length,
                    " bytes, the file has ", file_size - kSafetensorsPrefix, " for it", kCopyAgain);
  }
  return length;
}

SafetensorsHeader parse_header(std::string_view source, std::string_view text,
                               std::uint64_t data_size) {
  check_text(source, text);
  SafetensorsHeader header;
  HeaderEvents events(source, header);
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  std::ranges::stable_sort(header.entries, {}, [](const SafetensorsEntry& entry) {
    return std::pair(entry.begin, entry.end);
  });
  check_places(source, header.entries, data_size);
  return header;
}

FormattedHeader format_header(std::span<const NamedTensor> tensors,
                              const SafetensorsMetadata& metadata) {
  check_tensors(tensors);
  const NamesToWrite names = names_to_write(tensors, metadata);
  FormattedHeader header;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!names.is_left_out[i]) header.order.push_back(i);
  }
  std::ranges::sort(header.order, [&](std::size_t a, std::size_t b) {
    const SafetensorsType* dtype_a = find_dtype(tensors[a].tensor.dtype());
    const SafetensorsType* dtype_b = find_dtype(tensors[b].tensor.dtype());
    return dtype_a != dtype_b ? dtype_a > dtype_b : tensors[a].name < tensors[b].name;
  });

  std::string text = "{";
  if (!names.metadata.empty()) text += format_metadata(names.metadata);
  std::uint64_t place = 0;
  for (const std::size_t index : header.order) {
    const auto& [name, tensor] = tensors[index];
    if (text.size() > 1) text += ',';
    text += concat(json_text(name), ":{\"dtype\":\"", find_dtype(tensor.dtype())->name,
                   "\",\"shape\":[");
    for (std::size_t axis = 0; axis < tensor.rank(); ++axis) {
      text += concat(axis > 0 ? "," : "", tensor.shape()[axis]);
    }
    text += concat("],\"data_offsets\":[", place, ",", place + tensor.bytes(), "]}");
    place += tensor.bytes();
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  check_arg(text.size() <= kMaxSafetensorsHeader, kSafetensorsOp, "the header would have ",
            text.size(), " bytes, at most ", kMaxSafetensorsHeader,
            " are allowed. Write several files");

  const std::uint64_t length = text.size();
  header.bytes.resize(kSafetensorsPrefix);
  std::memcpy(header.bytes.data(), &length, kSafetensorsPrefix);
  header.bytes += text;
  return header;
}

}  // namespace mezzo::io

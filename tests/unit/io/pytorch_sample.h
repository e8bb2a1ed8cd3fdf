// PyTorch's files made by hand: pickles as texts that are joined, and zip archives of such texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mezzo::io::sample {

// The bytes of a number, little-endian.
template <class Number>
std::string number_bytes(Number number) {
  std::string bytes(sizeof(Number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(Number));
  return bytes;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Pickles: each function gives the instructions that push one value. ------------------------------

inline std::string text(std::string_view value) {
  return "X" + number_bytes(static_cast<std::uint32_t>(value.size())) + std::string(value);
}

// An integer of 8 bytes, or of 1 where that is enough.
inline std::string integer(std::int64_t value) {
  if (value >= 0 && value < 256) return std::string("K") + static_cast<char>(value);
  return "\x8a\x08" + number_bytes(value);
}

inline std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

inline std::string tuple(const std::vector<std::string>& values) {
  std::string all = "(";
  for (const std::string& value : values) all += value;
  return all + "t";
}

inline std::string integers(const std::vector<std::int64_t>& values) {
  std::vector<std::string> pushed;
  for (const std::int64_t value : values) pushed.push_back(integer(value));
  return tuple(pushed);
}

using Pairs = std::vector<std::pair<std::string, std::string>>;  // a name, and a pushed value

inline std::string items_of(const Pairs& pairs) {
  std::string all = "(";
  for (const auto& [name, value] : pairs) all += text(name) + value;
  return all + "u";
}

inline std::string dict(const Pairs& pairs) { return "}" + items_of(pairs); }

inline std::string ordered_dict(const Pairs& pairs) {
  return global("collections", "OrderedDict") + ")R" + items_of(pairs);
}

inline std::string storage(std::string_view type, std::string_view key, std::int64_t numel) {
  return tuple({text("storage"), global("torch", type), text(key), text("cpu"), integer(numel)}) +
         "Q";
}

struct View {
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape{};
  std::vector<std::int64_t> strides{};
};

inline std::string tensor(const std::string& pushed_storage, const View& view) {
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple({pushed_storage, integer(view.offset), integers(view.shape), integers(view.strides),
                "\x89", ordered_dict({})}) +
         "R";
}

// A view of a storage 0 of six f32.
inline std::string six(const View& view) { return tensor(storage("FloatStorage", "0", 6), view); }

inline std::string parameter(const std::string& pushed_tensor) {
  return global("torch._utils", "_rebuild_parameter") +
         tuple({pushed_tensor, "\x88", ordered_dict({})}) + "R";
}

inline std::string pickle(const std::string& pushed, char protocol = 2) {
  return std::string("\x80") + protocol + pushed + ".";
}

// Archives. ---------------------------------------------------------------------------------------

struct Part {
  std::string name;
  std::string data;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
};

struct ZipForm {
  bool zip64 = false;  // sizes and places in 64 bits
  std::string comment{};
  bool has_checksums = true;
};

// A zip archive of stored entries, whatever their `method` says.
std::string zip(const std::vector<Part>& parts, const ZipForm& form = {});

// An archive as torch.save() writes it: that pickle, and the storages 0, 1, ...
std::string file(const std::string& pickled, const std::vector<std::string>& storages = {},
                 const ZipForm& form = {});

// Values as the bytes of a storage.
template <class T>
std::string values(std::initializer_list<T> numbers) {
  std::string bytes;
  for (const T number : numbers) bytes += number_bytes(number);
  return bytes;
}

// A state dict of two tensors, a view of [2, 3] and a bool, with `_metadata` as modules have it.
std::string small_file(const ZipForm& form = {});

// A training's checkpoint in protocol 4, with that state under `state_dict`, and a number, a text
// and the state of an optimizer beside it.
std::string checkpoint_file(const ZipForm& form = {});

}  // namespace mezzo::io::sample

// Shared code of the fuzzers. A fuzzer is one file that defines read() and seeds(). entry.cpp makes
// it a program for libFuzzer, and replay.cpp a test for any compiler.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::fuzz {

using Bytes = std::vector<std::uint8_t>;
using Input = std::span<const std::uint8_t>;

// Reads one input. Only a mezzo::Error may be thrown.
void read(Input input);

// Sound inputs, which read() accepts without an error.
std::vector<Bytes> seeds();

// True if read() accepts the input, false if it throws a mezzo::Error; other exceptions pass.
bool accepts(Input input);

// Ends the program with a message unless `ok`, for properties of every accepted input.
void require(bool ok, std::string_view what);

// A temporary folder for readers that take paths; removed with the object.
class Folder {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();

  std::string path(std::string_view name = "") const { return (path_ / name).string(); }
  // Writes a file, replacing an existing one.
  void write(std::string_view name, Input bytes) const;

 private:
  std::filesystem::path path_;
};

inline Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

inline std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// Converts bytes from readers that use std::byte.
inline Bytes from_bytes(std::span<const std::byte> bytes) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {first, first + bytes.size()};
}

}  // namespace mezzo::fuzz

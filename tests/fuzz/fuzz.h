// What the fuzzers share. A fuzzer is one file that defines read() and seeds(); entry.cpp makes a
// program for libFuzzer of it, and replay.cpp a test for any compiler.
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

// Reads one input. Nothing but a mezzo::Error may come out.
void read(Input input);

// Sound inputs, which read() takes without an error.
std::vector<Bytes> seeds();

// True if read() takes the input, false if it throws a mezzo::Error; lets all else through.
bool accepts(Input input);

// Ends the program, saying what does not hold, unless `ok`: for what must be true of every input
// that is accepted.
void require(bool ok, std::string_view what);

// A folder of its own for readers that take paths; removed with the object.
class Folder {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();

  std::string path(std::string_view name = "") const { return (path_ / name).string(); }
  // Writes a file over the one that is there.
  void write(std::string_view name, Input bytes) const;

 private:
  std::filesystem::path path_;
};

inline Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

inline std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// For readers that take std::byte.
inline Bytes from_bytes(std::span<const std::byte> bytes) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {first, first + bytes.size()};
}

}  // namespace mezzo::fuzz

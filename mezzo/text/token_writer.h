// Files of tokens, as programs that train language models read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/io/atomic_file.h"

namespace mezzo::text {

// Writes the numbers of tokens after llm.c's header of 256 i32. The first three are, where all
// numbers of the vocabulary fit into 16 bits, 20240520, 1 and how many tokens follow, which are u16
// then; otherwise 20240801, 7 and the same, and u32 follow. All is little-endian.
//
// The file appears as a whole, by commit(), or not at all. Throws what io::AtomicFile throws, whose
// messages begin with `op`.
class TokenWriter {
 public:
  TokenWriter(const std::string& path, std::int64_t vocabulary, std::string_view op);

  // Whether numbers below `vocabulary` take two bytes.
  static bool fits_in_u16(std::int64_t vocabulary) { return vocabulary <= std::int64_t{1} << 16U; }

  // Appends numbers, which must be in the vocabulary. Throws ArgumentError if there are more than
  // the header can say, 2^31 - 1.
  void add(std::span<const std::int32_t> ids);
  std::int64_t count() const { return count_; }
  void commit();

 private:
  std::string op_;
  io::AtomicFile file_;
  bool is_u16_;
  std::int64_t count_ = 0;
  std::vector<std::byte> bytes_;  // of one part
};

}  // namespace mezzo::text

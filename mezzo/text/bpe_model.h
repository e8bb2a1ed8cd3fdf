// Byte pair encoding of words.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mezzo::text {

// Two neighbours that become one token.
struct BpeMerge {
  std::int32_t left;
  std::int32_t right;
  std::int32_t merged;
};

// What a byte-level BPE consists of. A word is at first one token per byte.
struct BpeVocabulary {
  // The bytes of each, by its number; empty for one that no word becomes, such as <|endoftext|>.
  std::vector<std::string> tokens{};
  std::vector<BpeMerge> merges{};           // the first that can be done is done first
  std::array<std::int32_t, 256> of_byte{};  // the token of each byte; -1 for bytes UTF-8 lacks
  bool whole_words = false;                 // a word that is a token is not divided
};

// The bytes that no UTF-8 text has.
constexpr bool is_never_in_utf8(unsigned byte) {
  return byte == 0xc0 || byte == 0xc1 || byte > 0xf4;
}

class BpeModel {
 public:
  explicit BpeModel(BpeVocabulary vocabulary);
  BpeModel(const BpeModel&) = delete;
  BpeModel& operator=(const BpeModel&) = delete;

  const std::vector<std::string>& tokens() const { return vocabulary_.tokens; }
  // The number of the token of these bytes, or -1.
  std::int32_t find(std::string_view bytes) const;

 private:
  friend class WordEncoder;

  // What a pair becomes.
  struct Rule {
    std::int32_t rank;  // its place among the merges
    std::int32_t merged;
  };
  const Rule* find_rule(std::int32_t left, std::int32_t right) const;

  BpeVocabulary vocabulary_;
  std::unordered_map<std::uint64_t, Rule> rules_;
  std::unordered_map<std::string_view, std::int32_t> by_bytes_;  // the keys are in vocabulary_
};

// Encodes one word after another; for one thread. The model must outlive it.
class WordEncoder {
 public:
  explicit WordEncoder(const BpeModel& model) : model_(model) {}

  // Appends the numbers of a word of UTF-8. Takes O(n log n) steps for n bytes.
  void encode(std::string_view word, std::vector<std::int32_t>& ids);

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // A token of the word so far; `id` is -1 once its left neighbour has taken it in.
  struct Symbol {
    std::int32_t id;
    std::size_t previous;
    std::size_t next;
  };
  // A merge that could be done: the first in order is that of the lowest rank, and then the
  // leftmost.
  struct Candidate {
    std::int32_t rank;
    std::int32_t merged;
    std::size_t place;
  };

  void begin(std::string_view word);
  void offer(std::size_t place);
  void merge(std::size_t place, std::int32_t merged);

  const BpeModel& model_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace mezzo::text

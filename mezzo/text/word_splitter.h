// Divides text into the words that a byte-level tokenizer encodes one by one.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "mezzo/core/function_ref.h"
#include "mezzo/text/regex.h"

namespace mezzo::text {

// Takes the next word.
using TakeWord = FunctionRef<void(std::string_view)>;

// For one thread. The words are the matches of the first expression and what is between them; each
// of these is divided by the next expression, and so on.
class WordSplitter {
 public:
  // The expressions must outlive it.
  explicit WordSplitter(const std::vector<Regex>& steps) : searches_(steps.begin(), steps.end()) {}

  // Hands over the words in order. Together they are the text, which must be UTF-8.
  void split(std::string_view text, TakeWord take) { split(text, 0, take); }

 private:
  void split(std::string_view text, std::size_t step, TakeWord take);

  std::vector<RegexSearch> searches_;
};

}  // namespace mezzo::text

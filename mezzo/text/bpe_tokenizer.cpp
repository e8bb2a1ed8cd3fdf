#include "mezzo/text/bpe_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "mezzo/text/checked_text.h"
#include "mezzo/text/word_splitter.h"

namespace mezzo::text {
namespace {

// Numbers that are handed over at a time.
constexpr std::size_t kIdsOfPart = std::size_t{1} << 16U;

std::vector<AddedToken> of_round(const std::vector<AddedToken>& tokens, bool later) {
  std::vector<AddedToken> result;
  std::ranges::copy_if(tokens, std::back_inserter(result),
                       [&](const AddedToken& token) { return token.later == later; });
  return result;
}

// The numbers of words that were encoded before. Most words of a text are among a few thousand.
class WordCache {
 public:
  // Appends the numbers of a word that is known; false if it is not.
  bool append(std::string_view word, std::vector<std::int32_t>& ids) const {
    const auto found = places_.find(word);
    if (found == places_.end()) return false;
    const auto [begin, count] = found->second;
    const auto first = ids_.begin() + static_cast<std::ptrdiff_t>(begin);
    ids.insert(ids.end(), first, first + static_cast<std::ptrdiff_t>(count));
    return true;
  }

  // Remembers a word, whose text must stay where it is.
  void add(std::string_view word, std::span<const std::int32_t> ids) {
    // Long words do not come again. A full cache is emptied: it fills again within a megabyte.
    if (word.size() > kLongest) return;
    if (places_.size() == kMost) places_.clear(), ids_.clear();
    places_.emplace(word, std::pair(ids_.size(), ids.size()));
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

 private:
  static constexpr std::size_t kLongest = 64;
  static constexpr std::size_t kMost = std::size_t{1} << 17U;

  std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> places_;
  std::vector<std::int32_t> ids_;
};

}  // namespace

// One text that is being encoded.
class BpeTokenizer::Encoding {
 public:
  Encoding(const BpeTokenizer& tokenizer, TakeIds take)
      : tokenizer_(tokenizer),
        take_(take),
        words_(tokenizer.model_),
        splitter_(tokenizer.splits_) {}

  void run(std::string_view text) {
    around(tokenizer_.first_, text, [&](std::string_view between) {
      around(tokenizer_.later_, between, [&](std::string_view rest) {
        splitter_.split(rest, [&](std::string_view word) { add_word(word); });
      });
    });
    hand_over();
  }

 private:
  // Adds the tokens that are found in a text, and gives what is between them to `encode_rest`.
  template <class EncodeRest>
  void around(const AddedTokens& tokens, std::string_view text, const EncodeRest& encode_rest) {
    std::size_t done = 0;
    while (const auto found = tokens.find(text, done)) {
      encode_rest(text.substr(done, found->begin - done));
      ids_.push_back(found->id);
      done = found->end;
    }
    encode_rest(text.substr(done));
  }

  void add_word(std::string_view word) {
    if (!cache_.append(word, ids_)) {
      const std::size_t before = ids_.size();
      words_.encode(word, ids_);
      cache_.add(word, std::span(ids_).subspan(before));
    }
    if (ids_.size() >= kIdsOfPart) hand_over();
  }

  void hand_over() {
    if (!ids_.empty()) take_(ids_);
    ids_.clear();
  }

  const BpeTokenizer& tokenizer_;
  TakeIds take_;
  WordEncoder words_;
  WordSplitter splitter_;
  WordCache cache_;
  std::vector<std::int32_t> ids_;
};

BpeTokenizer::BpeTokenizer(BpeParts parts)
    : model_(std::move(parts.vocabulary)),
      first_(of_round(parts.added, false)),
      later_(of_round(parts.added, true)),
      splits_(std::move(parts.splits)),
      texts_(model_.tokens()) {
  for (const auto* list : {&parts.verbatim, &parts.added}) {
    for (const AddedToken& token : *list) {
      const auto place = static_cast<std::size_t>(token.id);
      if (place >= texts_.size()) texts_.resize(place + 1);
      texts_[place] = token.text;
    }
  }
  for (const auto* list : {&parts.added, &parts.verbatim}) {
    for (const AddedToken& token : *list) {
      own_text_.emplace(texts_[static_cast<std::size_t>(token.id)], token.id);
    }
  }
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  encode_file_text(text, [&](std::span<const std::int32_t> part) {
    ids.insert(ids.end(), part.begin(), part.end());
  });
  return ids;
}

void BpeTokenizer::encode_file_text(std::string_view text, TakeIds take) const {
  check_utf8(text, "the text");
  Encoding(*this, take).run(text);
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    check_id(id, vocabulary());
    text += texts_[static_cast<std::size_t>(id)];
  }
  return text;
}

std::optional<std::int32_t> BpeTokenizer::id_of(std::string_view token) const {
  if (const auto found = own_text_.find(token); found != own_text_.end()) return found->second;
  const std::int32_t id = model_.find(token);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

}  // namespace mezzo::text

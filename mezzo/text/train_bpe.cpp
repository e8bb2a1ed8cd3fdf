#include "mezzo/text/train_bpe.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mezzo/text/added_tokens.h"
#include "mezzo/text/bpe_model.h"
#include "mezzo/text/byte_alphabet.h"
#include "mezzo/text/checked_text.h"
#include "mezzo/text/pattern.h"
#include "mezzo/text/tokenizer_json.h"
#include "mezzo/text/word_splitter.h"

namespace mezzo::text {
namespace {

constexpr std::int64_t kFewestOccurrences = 2;

using Pair = std::pair<std::int32_t, std::int32_t>;

struct HashOfPair {
  std::size_t operator()(const Pair& pair) const {
    return std::hash<std::uint64_t>()(
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.first)) << 32U |
        static_cast<std::uint32_t>(pair.second));
  }
};

// A word as tokens, and how often it occurs.
struct CountedWord {
  std::vector<std::int32_t> ids;
  std::int64_t count;
};

// The special token, and one for each byte.
BpeVocabulary first_tokens() {
  BpeVocabulary vocabulary;
  vocabulary.tokens.emplace_back(kEndOfText);
  std::array<unsigned char, 256> bytes{};
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  std::ranges::sort(bytes, {}, character_of_byte);
  for (const unsigned char byte : bytes) {
    vocabulary.of_byte[byte] = static_cast<std::int32_t>(vocabulary.tokens.size());
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  }
  return vocabulary;
}

// The words of the text in the order of their bytes, which depends on nothing else.
std::vector<CountedWord> count_words(std::string_view text, const BpeVocabulary& vocabulary) {
  std::vector<Regex> splits;
  splits.emplace_back(for_pcre2(kGpt2Pattern));
  WordSplitter splitter(splits);
  const AddedTokens documents({{.id = 0, .text = std::string(kEndOfText)}});
  std::unordered_map<std::string_view, std::int64_t> counts;
  for (std::size_t done = 0; done < text.size();) {
    const auto found =
        documents.find(text, done).value_or(AddedTokens::Found{text.size(), text.size(), 0});
    splitter.split(text.substr(done, found.begin - done),
                   [&](std::string_view word) { ++counts[word]; });
    done = found.end;
  }
  std::vector<std::pair<std::string_view, std::int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted);
  std::vector<CountedWord> words;
  for (const auto& [word, count] : sorted) {
    words.push_back({{}, count});
    for (const char byte : word) {
      words.back().ids.push_back(vocabulary.of_byte[static_cast<unsigned char>(byte)]);
    }
  }
  return words;
}

// Merges pairs until the vocabulary is as large as it should be.
class Trainer {
 public:
  Trainer(BpeVocabulary vocabulary, std::vector<CountedWord> words)
      : vocabulary_(std::move(vocabulary)), words_(std::move(words)) {
    std::int32_t id = 0;
    for (const std::string& token : vocabulary_.tokens) by_bytes_.emplace(token, id++);
    for (std::size_t word = 0; word < words_.size(); ++word) {
      for_each_pair(word, [&](const Pair& pair) { add(pair, word); });
    }
    for (const auto& [pair, occurrences] : pairs_) queue_.push({occurrences.count, pair});
  }

  BpeVocabulary run(std::int64_t tokens) {
    while (std::ssize(vocabulary_.tokens) < tokens && !queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      const std::int64_t count = pairs_[best.pair].count;
      if (count < kFewestOccurrences) continue;
      // Pairs become fewer as their tokens are merged with others; the queue hears of it here.
      if (count == best.count) {
        merge(best.pair);
      } else {
        queue_.push({count, best.pair});
      }
    }
    return std::move(vocabulary_);
  }

 private:
  struct Occurrences {
    std::int64_t count = 0;
    std::vector<std::size_t> words{};  // that have, or had, the pair
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  // Adds a pair of a word to what is counted.
  void add(const Pair& pair, std::size_t word) {
    Occurrences& occurrences = pairs_[pair];
    occurrences.count += words_[word].count;
    if (occurrences.words.empty() || occurrences.words.back() != word) {
      occurrences.words.push_back(word);
    }
  }

  // The pairs of a word, in order.
  template <class Visit>
  void for_each_pair(std::size_t word, const Visit& visit) {
    const std::vector<std::int32_t>& ids = words_[word].ids;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) visit(Pair(ids[i], ids[i + 1]));
  }

  void merge(const Pair& pair) {
    const auto& [left, right] = pair;
    const std::int32_t merged = token_of(vocabulary_.tokens[static_cast<std::size_t>(left)] +
                                         vocabulary_.tokens[static_cast<std::size_t>(right)]);
    vocabulary_.merges.push_back({left, right, merged});
    std::vector<std::size_t> words = std::move(pairs_[pair].words);
    pairs_.erase(pair);
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::vector<Pair> changed;
    for (const std::size_t word : words) merge_in(word, vocabulary_.merges.back(), changed);
    std::ranges::sort(changed);
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (const Pair& other : changed) queue_.push({pairs_[other].count, other});
  }

  // Another pair may have made a token of the same bytes: that is then the token of both.
  std::int32_t token_of(const std::string& bytes) {
    const auto [place, is_new] =
        by_bytes_.emplace(bytes, static_cast<std::int32_t>(vocabulary_.tokens.size()));
    if (is_new) vocabulary_.tokens.push_back(bytes);
    return place->second;
  }

  void merge_in(std::size_t word, const BpeMerge& merge, std::vector<Pair>& changed) {
    std::vector<std::int32_t>& ids = words_[word].ids;
    std::vector<std::int32_t> result;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool is_pair = ids[i] == merge.left && i + 1 < ids.size() && ids[i + 1] == merge.right;
      result.push_back(is_pair ? merge.merged : ids[i]);
      i += is_pair ? 1 : 0;
    }
    if (result.size() == ids.size()) return;
    const std::int64_t count = words_[word].count;
    for_each_pair(word, [&](const Pair& pair) {
      if (const auto found = pairs_.find(pair); found != pairs_.end()) found->second.count -= count;
    });
    ids = std::move(result);
    for_each_pair(word, [&](const Pair& pair) {
      if (pair.first != merge.merged && pair.second != merge.merged) {
        pairs_[pair].count += count;  // as before: the word is on its list
      } else {
        add(pair, word);
        changed.push_back(pair);
      }
    });
  }

  BpeVocabulary vocabulary_;
  std::vector<CountedWord> words_;
  std::unordered_map<std::string, std::int32_t> by_bytes_;
  std::unordered_map<Pair, Occurrences, HashOfPair> pairs_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::string train_bpe(std::string_view text, std::int64_t vocabulary) {
  check_arg(vocabulary >= kFewestTokens && vocabulary <= kMostTokens, kTextOp, "a vocabulary has ",
            kFewestTokens, " to ", kMostTokens, " tokens, not ", vocabulary);
  check_utf8(text, "the text");
  BpeVocabulary first = first_tokens();
  std::vector<CountedWord> words = count_words(text, first);
  const std::int32_t special[] = {0};
  return format_tokenizer_json(Trainer(std::move(first), std::move(words)).run(vocabulary),
                               special);
}

}  // namespace mezzo::text

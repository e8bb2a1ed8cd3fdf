#include "mezzo/text/bpe_model.h"

#include <limits>
#include <map>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace mezzo::text {
namespace {

using Ids = std::vector<std::int32_t>;

// The tokens of all bytes, and merges of tokens that are drawn among those so far.
BpeVocabulary random_vocabulary(std::mt19937& random, int merges) {
  BpeVocabulary vocabulary;
  std::iota(vocabulary.of_byte.begin(), vocabulary.of_byte.end(), 0);
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  }
  Ids of_letters = {'a', 'b', 'c'};
  for (int i = 0; i < merges; ++i) {
    const std::int32_t left = of_letters[random() % of_letters.size()];
    const std::int32_t right = of_letters[random() % of_letters.size()];
    const auto merged = static_cast<std::int32_t>(vocabulary.tokens.size());
    vocabulary.tokens.push_back(vocabulary.tokens[static_cast<std::size_t>(left)] +
                                vocabulary.tokens[static_cast<std::size_t>(right)]);
    vocabulary.merges.push_back({left, right, merged});
    of_letters.push_back(merged);
  }
  return vocabulary;
}

// By the definition: the pair that comes first among the merges is merged where it occurs first.
Ids encode_plainly(const BpeVocabulary& vocabulary, std::string_view word) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::pair<int, std::int32_t>> rules;
  int rank = 0;
  for (const BpeMerge& merge : vocabulary.merges) {
    rules[{merge.left, merge.right}] = {rank++, merge.merged};
  }
  Ids ids;
  for (const char c : word) ids.push_back(static_cast<unsigned char>(c));
  for (;;) {
    std::size_t best = ids.size();
    std::pair<int, std::int32_t> rule(std::numeric_limits<int>::max(), 0);
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = rules.find({ids[i], ids[i + 1]});
      if (found == rules.end() || found->second.first >= rule.first) continue;
      best = i;
      rule = found->second;
    }
    if (best == ids.size()) return ids;
    ids[best] = rule.second;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(BpeModel, MergesAsTheDefinitionSays) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const BpeVocabulary vocabulary = random_vocabulary(random, 1 + trial % 20);
    const BpeModel model(vocabulary);
    WordEncoder words(model);
    std::string word;
    for (std::size_t length = random() % 60; word.size() < length;) {
      word += static_cast<char>('a' + random() % 3);
    }
    Ids ids;
    words.encode(word, ids);
    EXPECT_EQ(ids, encode_plainly(vocabulary, word)) << word;
  }
}

TEST(BpeModel, WholeWordsAreFoundFirst) {
  BpeVocabulary vocabulary;
  std::iota(vocabulary.of_byte.begin(), vocabulary.of_byte.end(), 0);
  vocabulary.tokens = {"a", "b", "aba"};
  vocabulary.of_byte['a'] = 0;
  vocabulary.of_byte['b'] = 1;
  for (const bool whole_words : {false, true}) {
    vocabulary.whole_words = whole_words;
    const BpeModel model(vocabulary);
    Ids ids;
    WordEncoder(model).encode("aba", ids);
    EXPECT_EQ(ids, whole_words ? Ids{2} : (Ids{0, 1, 0}));
  }
}

// A word of a million letters would take hours if each merge looked at all of it.
TEST(BpeModel, LongWordsTakeLittleMoreThanLinearTime) {
  std::mt19937 random(2);
  const BpeVocabulary vocabulary = random_vocabulary(random, 20);
  const BpeModel model(vocabulary);
  const std::string word(1'000'000, 'a');
  Ids ids;
  WordEncoder(model).encode(word, ids);
  std::size_t bytes = 0;
  for (const std::int32_t id : ids) bytes += vocabulary.tokens[static_cast<std::size_t>(id)].size();
  EXPECT_EQ(bytes, word.size());
}

}  // namespace
}  // namespace mezzo::text

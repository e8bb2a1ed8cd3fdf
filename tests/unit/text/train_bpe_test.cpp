#include "mezzo/text/train_bpe.h"

#include <gmock/gmock.h>

#include "tests/unit/message_of.h"
#include "tests/unit/text/small_tokenizer.h"

namespace mezzo::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> merges_of(std::string_view text, std::int64_t vocabulary) {
  return Json::parse(train_bpe(text, vocabulary))["model"]["merges"];
}

TEST(TrainBpe, TheMostFrequentPairIsMergedFirst) {
  EXPECT_THAT(merges_of("ab,ab,cb,cb,cb", 259), ElementsAre("c b", "a b"));
  // "\u0120low" occurs seven times, in one word or another. Of its pairs, l and o are the first
  // bytes, and the space comes after all letters, but before what was merged.
  EXPECT_THAT(merges_of(" low low low low low lower lower new new", 260),
              ElementsAre("l o", "\u0120 lo", "\u0120lo w"));
}

TEST(TrainBpe, OfEqualPairsThatOfTheSmallestNumbers) {
  // Each pair occurs twice; the bytes have their numbers in the order of their characters.
  EXPECT_THAT(merges_of("ba,dc,ba,dc", 262), ElementsAre("b a", "d c"));
  EXPECT_THAT(merges_of("bd,bc,bd,bc", 262), ElementsAre("b c", "b d"));
}

TEST(TrainBpe, PairsThatOverlapAreMergedFromTheLeft) {
  EXPECT_THAT(merges_of("aaa,aaa", 300), ElementsAre("a a", "aa a"));
  EXPECT_THAT(merges_of("aaaa,aaaa", 300), ElementsAre("a a", "aa aa"));
}

TEST(TrainBpe, EndsWhereNoPairOccursTwice) {
  EXPECT_THAT(merges_of("abc", 300), ElementsAre());
  const auto tokenizer = parse_tokenizer_json(train_bpe("abab", 1000), "trained");
  EXPECT_EQ(tokenizer->vocabulary(), 258);
}

TEST(TrainBpe, WordsDoNotCrossTheEndOfADocument) {
  const std::string text = "ab<|endoftext|>ab<|endoftext|>";
  EXPECT_THAT(merges_of(text, 300), ElementsAre("a b"));
  const auto tokenizer = parse_tokenizer_json(train_bpe(text, 300), "trained");
  EXPECT_THAT(tokenizer->encode(text), ElementsAre(257, 0, 257, 0));
  EXPECT_EQ(tokenizer->id_of(kEndOfText), 0);
}

TEST(TrainBpe, EveryTextComesBack) {
  const std::string text =
      "the theme of \u00e9t\u00e9 and \u65e5\u672c\u8a9e, the theme \U0001f600";
  const auto tokenizer = parse_tokenizer_json(train_bpe(text + text, 280), "trained");
  EXPECT_EQ(tokenizer->vocabulary(), 280);
  for (const std::string& other : {text, std::string("\x01\x7f\n\u0085 \U0010ffff")}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(other)), other);
  }
  EXPECT_LT(tokenizer->encode(text).size(), text.size());
}

TEST(TrainBpe, ReadsAgainWhatItWrote) {
  const std::string text = "low lower lowest new newer newest wide wider widest ";
  EXPECT_EQ(train_bpe(text + text, 270), train_bpe(text + text, 270));
  const Json json = Json::parse(train_bpe(text + text, 270));
  EXPECT_EQ(json["model"]["vocab"].size(), 270U);
  EXPECT_EQ(json["added_tokens"][0]["content"], "<|endoftext|>");
}

TEST(TrainBpe, SaysWhatIsWrong) {
  EXPECT_EQ(message_of<ArgumentError>([] { train_bpe("a", 256); }),
            "[text] a vocabulary has 257 to 268435456 tokens, not 256");
  EXPECT_THAT(message_of<ArgumentError>([] { train_bpe("a\x80", 300); }),
              HasSubstr("byte 1 is 128"));
}

}  // namespace
}  // namespace mezzo::text

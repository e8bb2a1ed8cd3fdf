// Tests models of SentencePiece, where its library is installed.
#include "mezzo/text/sentencepiece.h"

#include <gmock/gmock.h>

#include "mezzo/io/protobuf.h"
#include "mezzo/text/tokenizer_file.h"
#include "tests/unit/data/temp_folder.h"

namespace mezzo::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A message ModelProto: a unigram model whose pieces have scores. Fields and values are those of
// sentencepiece_model.proto.
std::string model_of(const std::vector<std::pair<std::string, float>>& pieces) {
  constexpr int kNormal = 1;
  constexpr int kUnknown = 2;
  constexpr int kControl = 3;
  io::ProtoMessage model;
  const auto add = [&](const std::string& piece, float score, int type) {
    model.message(1, io::ProtoMessage().text(1, piece).number(2, score).integer(3, type));
  };
  add("<unk>", 0, kUnknown);
  add("<s>", 0, kControl);
  add("</s>", 0, kControl);
  for (const auto& [piece, score] : pieces) add(piece, score, kNormal);
  model.message(2, io::ProtoMessage().integer(3, 1));  // trainer_spec: unigram
  model.message(3, io::ProtoMessage().text(1, "identity"));
  return model.bytes();
}

const std::vector<std::pair<std::string, float>> kPieces = {
    {"\u2581", -2}, {"\u2581the", -3}, {"\u2581a", -4}, {"me", -5}, {"m", -7}, {"e", -7}};

TEST(SentencePiece, EncodesByItsModel) {
  const auto tokenizer = parse_sentencepiece(model_of(kPieces), "x.model");
  EXPECT_EQ(tokenizer->vocabulary(), 9);
  EXPECT_THAT(tokenizer->encode("theme a"), ElementsAre(4, 6, 5));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{4, 6, 5}), "theme a");
  EXPECT_EQ(tokenizer->id_of("\u2581the"), 4);
  EXPECT_EQ(tokenizer->id_of("<unk>"), 0);
  EXPECT_EQ(tokenizer->id_of("other"), std::nullopt);
}

TEST(SentencePiece, LinesOfAFileAreSentences) {
  const auto tokenizer = parse_sentencepiece(model_of(kPieces), "x.model");
  std::vector<std::int32_t> ids;
  tokenizer->encode_file_text("the\n\na\nme", [&](std::span<const std::int32_t> part) {
    ids.insert(ids.end(), part.begin(), part.end());
  });
  EXPECT_THAT(ids, ElementsAre(4, 2, 5, 2, 3, 6, 2));
}

TEST(SentencePiece, SaysWhatIsWrong) {
  const auto tokenizer = parse_sentencepiece(model_of(kPieces), "x.model");
  EXPECT_THAT(message_of<ArgumentError>([&] { static_cast<void>(tokenizer->encode("a\xff")); }),
              HasSubstr("byte 1 is 255"));
  EXPECT_THAT(message_of<ArgumentError>(
                  [&] { static_cast<void>(tokenizer->decode(std::vector<std::int32_t>{9})); }),
              HasSubstr("no token has the number 9; they are 0 to 8"));
  EXPECT_THAT(
      message_of<FileError>([] { static_cast<void>(parse_sentencepiece("text", "x.model")); }),
      HasSubstr("[text] x.model: neither a tokenizer.json nor a model of SentencePiece"));
}

TEST(SentencePiece, IsToldFromJsonByItsBytes) {
  const data::TempFolder folder;
  const std::string bytes = model_of(kPieces);
  const std::string path = folder.write("x.model", data::Bytes(bytes.begin(), bytes.end()));
  EXPECT_FALSE(read_tokenizer_file(path).is_json);
  EXPECT_EQ(read_tokenizer(path)->vocabulary(), 9);
}

// Runs with a library of that name that has no functions.
TEST(SentencePiece, DISABLED_SaysWhatTheEmptyLibraryLacks) {
  EXPECT_THAT(
      message_of<DeviceError>(
          [] { static_cast<void>(parse_sentencepiece(model_of(kPieces), "x.model")); }),
      HasSubstr("[text] SentencePiece is of another version: libsentencepiece.so.0 has no"));
}

}  // namespace
}  // namespace mezzo::text

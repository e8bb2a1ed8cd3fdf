#include "mezzo/text/sentencepiece.h"

#include <algorithm>

#include "mezzo/text/checked_text.h"
#include "mezzo/text/sentencepiece_library.h"

namespace mezzo::text {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string_view bytes, const std::string& source) {
    library_.make(&model_);
    const SentencePieceStatus status = library_.load(&model_, bytes);
    if (status.ok()) return;
    const std::string message = status.message();
    library_.destroy(&model_);
    fail<FileError>(kTextOp, source,
                    ": neither a tokenizer.json nor a model of SentencePiece: ", message,
                    kCopyAgain);
  }
  SentencePieceTokenizer(const SentencePieceTokenizer&) = delete;
  SentencePieceTokenizer& operator=(const SentencePieceTokenizer&) = delete;
  ~SentencePieceTokenizer() override { library_.destroy(&model_); }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    check_utf8(text, "the text");
    return encode_sound(text);
  }

  void encode_file_text(std::string_view text, TakeIds take) const override {
    check_utf8(text, "the text");
    const int end_of_sentence = library_.end_of_sentence(&model_);
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::vector<std::int32_t> ids = encode_sound(text.substr(0, end));
      if (!ids.empty() && end_of_sentence >= 0) ids.push_back(end_of_sentence);
      if (!ids.empty()) take(ids);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    for (const std::int32_t id : ids) check_id(id, vocabulary());
    std::string text;
    const SentencePieceStatus status = library_.decode(&model_, {ids.begin(), ids.end()}, &text);
    check_arg(status.ok(), kTextOp, "SentencePiece cannot decode: ", status.message());
    return text;
  }

  std::int64_t vocabulary() const override { return library_.pieces(&model_); }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    // A piece that the model lacks has the number of the unknown one.
    const int id = library_.id_of(&model_, token);
    const bool is_known = id >= 0 && id < vocabulary() && library_.piece_of(&model_, id) == token;
    return is_known ? std::optional<std::int32_t>(id) : std::nullopt;
  }

 private:
  std::vector<std::int32_t> encode_sound(std::string_view text) const {
    std::vector<int> ids;
    const SentencePieceStatus status = library_.encode(&model_, text, &ids);
    check_arg(status.ok(), kTextOp, "SentencePiece cannot encode: ", status.message());
    return ids;
  }

  const SentencePieceLibrary& library_ = SentencePieceLibrary::get();
  SentencePieceProcessor model_;
};

}  // namespace

std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view bytes, const std::string& source) {
  return std::make_unique<SentencePieceTokenizer>(bytes, source);
}

}  // namespace mezzo::text

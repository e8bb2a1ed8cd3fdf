#include "mezzo/cli/text_codec.h"

#include "mezzo/core/error.h"
#include "mezzo/text/tokenizer.h"

namespace mezzo::cli {
namespace {

constexpr std::int64_t kByteTokens = 256;

class ByteCodec final : public TextCodec {
 public:
  std::vector<std::int64_t> encode(const std::string& text) const override {
    std::vector<std::int64_t> tokens;
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }

  std::string decode(const std::vector<std::int64_t>& tokens) const override {
    std::string bytes;
    for (const std::int64_t token : tokens) bytes += static_cast<char>(token);
    return bytes;
  }
};

class TokenizerCodec final : public TextCodec {
 public:
  explicit TokenizerCodec(std::unique_ptr<text::Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  std::vector<std::int64_t> encode(const std::string& text) const override {
    const std::vector<std::int32_t> ids = tokenizer_->encode(text);
    return {ids.begin(), ids.end()};
  }

  // A model may have more tokens than its tokenizer, so that their number is a round one.
  std::string decode(const std::vector<std::int64_t>& tokens) const override {
    std::vector<std::int32_t> ids;
    for (const std::int64_t token : tokens) {
      if (token < tokenizer_->vocabulary()) ids.push_back(static_cast<std::int32_t>(token));
    }
    return tokenizer_->decode(ids);
  }

 private:
  std::unique_ptr<text::Tokenizer> tokenizer_;
};

}  // namespace

std::unique_ptr<TextCodec> make_codec(const std::string& tokenizer, std::int64_t vocabulary) {
  if (tokenizer.empty()) {
    check_arg(vocabulary == kByteTokens, "--tokenizer", "the model has ", vocabulary,
              " tokens, which are not bytes. Name the tokenizer.json of its text");
    return std::make_unique<ByteCodec>();
  }
  std::unique_ptr<text::Tokenizer> read = text::read_tokenizer(tokenizer);
  check_arg(read->vocabulary() <= vocabulary, "--tokenizer", tokenizer, ": has ",
            read->vocabulary(), " tokens, and the model only ", vocabulary,
            ". Use the tokenizer that the model was trained with");
  return std::make_unique<TokenizerCodec>(std::move(read));
}

}  // namespace mezzo::cli

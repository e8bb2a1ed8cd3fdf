// Makes a byte-level BPE of a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mezzo::text {

// The special token of trained tokenizers: it stands between the documents of a text.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";
// What a trained vocabulary has before the first pair is merged: that token, and 256 bytes.
inline constexpr std::int64_t kFewestTokens = 257;

// The text of a tokenizer.json, for a file that read_tokenizer() and Hugging Face's tokenizers
// read. The text, which must be UTF-8, is divided into words as GPT-2 does; the pair of neighbours
// that occurs most often in it becomes a token, again and again, until there are `vocabulary`
// tokens, or no pair occurs twice: then there are fewer. Of pairs that occur equally often, the one
// with the smallest first number is taken, and then with the smallest second; so the result is a
// function of the text. It is that of the package's BpeTrainer with `min_frequency` 2, the byte
// alphabet and this special token.
//
// The token <|endoftext|> has the number 0. Where the text has it, no word goes across it. Bytes
// follow in the order of the characters by which they are written, then merges in their order.
// Throws ArgumentError for a vocabulary below 257 or above 2^28, and for text that is not UTF-8.
std::string train_bpe(std::string_view text, std::int64_t vocabulary);

}  // namespace mezzo::text

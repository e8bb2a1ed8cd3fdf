// Files of tokens: a text of bytes, and the .bin files that programs for training language models
// read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mezzo/data/dataset.h"
#include "mezzo/data/token_set.h"

namespace mezzo::data {

// The bytes of a file, each a token. The last tenth is for testing, the rest for training. Throws
// FileError if the file cannot be mapped or the part has no byte, and what TokenSet throws;
// `vocabulary` is that of the model, or 0 for any.
std::unique_ptr<TokenSet> open_text(const std::string& path, Split split,
                                    std::int64_t vocabulary = 0);

// A file of numbers, u16 or u32 with the least significant byte first:
//   raw      as nanoGPT writes them: u16; u32 if the vocabulary has more than 65,536 tokens, or if
//            the upper halves of the first 1,024 numbers are all 0
//   llm.c    after a header of 256 i32: 20240520, 1 and the number of tokens, in u16, or in u32 if
//            the size of the file says so; or 20240801, 7 and that number, in u32
// Throws FileError if the file cannot be mapped, is empty, is no whole number of tokens, or does
// not have the tokens that its header counts, and what TokenSet throws.
std::unique_ptr<TokenSet> open_token_file(const std::string& path, std::int64_t vocabulary = 0);

// `train.bin` or `val.bin` in a folder. Throws FileError if there is no such file, and what
// open_token_file() throws.
std::unique_ptr<TokenSet> open_token_folder(const std::string& folder, Split split,
                                            std::int64_t vocabulary = 0);

}  // namespace mezzo::data

// The characters by which byte-level tokenizers write bytes in their files: GPT-2's.
//
// Bytes that Latin-1 shows are the characters with their numbers. The other 68, such as the space,
// are in order the characters from U+0100 on. So a token is text without spaces or control
// characters, whatever its bytes are.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mezzo::text {

// The code point of the character that stands for a byte.
char32_t character_of_byte(unsigned char byte);

// A token's bytes as a file writes them.
std::string in_alphabet(std::string_view bytes);

// The bytes that a file's token stands for, which must be UTF-8; nothing if one of its characters
// stands for no byte.
std::optional<std::string> from_alphabet(std::string_view token);

}  // namespace mezzo::text

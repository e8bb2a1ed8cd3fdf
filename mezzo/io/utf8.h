// Checks of text that comes from outside.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mezzo::io {

// The position of the first byte that is not valid UTF-8, or std::string_view::npos if all is
// valid. Overlong forms and surrogates are invalid.
std::size_t find_invalid_utf8(std::string_view text);

// The text with `\xNN` for every byte that is not UTF-8; paths may have such bytes.
std::string escape_invalid_utf8(std::string_view text);

// `text`, which must be UTF-8, in single quotes for a message: cut off after `limit` bytes, with
// `?` for control characters.
std::string in_quotes(std::string_view text, std::size_t limit = 120);

}  // namespace mezzo::io

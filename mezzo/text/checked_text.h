// What every tokenizer checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/io/utf8.h"

namespace mezzo::text {

inline constexpr std::string_view kTextOp = "text";                  // in error messages
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 28U;  // of a vocabulary

// Throws an ErrorType `[text] WHAT is not UTF-8: its byte N ...` unless the text is UTF-8.
template <class ErrorType = ArgumentError>
void check_utf8(std::string_view text, std::string_view what) {
  const std::size_t odd = io::find_invalid_utf8(text);
  if (odd == std::string_view::npos) return;
  fail<ErrorType>(kTextOp, what, " is not UTF-8: byte ", odd, " is ",
                  static_cast<unsigned>(static_cast<unsigned char>(text[odd])),
                  ". Convert it to UTF-8");
}

// Throws ArgumentError unless a token has this number.
inline void check_id(std::int32_t id, std::int64_t vocabulary) {
  check_arg(id >= 0 && id < vocabulary, kTextOp, "no token has the number ", id, "; they are 0 to ",
            vocabulary - 1);
}

}  // namespace mezzo::text

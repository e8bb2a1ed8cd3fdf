// The regular expressions of a tokenizer.json, for PCRE2.
//
// The file means them as Oniguruma reads them, in Ruby's syntax. Both libraries read most of it
// alike. What they read differently is written in other words, such as `\s`, which for PCRE2 has
// one character more, or refused, such as `^`, which for Oniguruma is the beginning of a line.
#pragma once

#include <string>
#include <string_view>

namespace mezzo::text {

// How GPT-2 divides text into words.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The same expression for PCRE2. Throws ArgumentError for what is not supported, with its text.
std::string for_pcre2(std::string_view pattern);

// An expression for PCRE2 that matches exactly this text.
std::string literal_for_pcre2(std::string_view text);

}  // namespace mezzo::text

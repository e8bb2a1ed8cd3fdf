// Writes the command's standard output and standard error.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace mezzo::cli {

// These functions do not throw if output cannot be written: a run outlives the terminal that shows
// it, and its files are written wherever its output goes. main() checks standard output at the end.
inline void put_text(std::FILE* file, const std::string& text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), file));
}
template <class... Args>
void write_out(fmt::format_string<Args...> format, Args&&... args) {
  put_text(stdout, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void write_error(fmt::format_string<Args...> format, Args&&... args) {
  put_text(stderr, fmt::format(format, std::forward<Args>(args)...));
}

// A name from a file system, or a message with one, on a single line. Control characters, which
// could change what a terminal shows, become spaces.
inline std::string on_one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

}  // namespace mezzo::cli

// Writes bytes that should be UTF-8 as soon as they are whole characters.
#pragma once

#include <string>
#include <string_view>

namespace mezzo::cli {

// Takes bytes as they come and gives what can be shown. A network that predicts bytes may give any:
// what is not UTF-8, and control characters but newline and tab, which could change what a terminal
// shows, become U+FFFD.
class Utf8Output {
 public:
  // The characters that are complete with these bytes.
  std::string add(std::string_view bytes);
  // U+FFFD if a character has begun and not ended; then it is as at first.
  std::string end();

 private:
  std::string begun_;  // of a character
};

}  // namespace mezzo::cli

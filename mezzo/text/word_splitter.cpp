#include "mezzo/text/word_splitter.h"

#include <algorithm>

namespace mezzo::text {

void WordSplitter::split(std::string_view text, std::size_t step, TakeWord take) {
  if (text.empty()) return;
  if (step == searches_.size()) return take(text);
  for (std::size_t done = 0; done < text.size();) {
    const RegexMatch match =
        searches_[step].find(text, done).value_or(RegexMatch{text.size(), text.size()});
    split(text.substr(done, match.begin - done), step + 1, take);
    split(text.substr(match.begin, match.end - match.begin), step + 1, take);
    done = match.end;
  }
}

}  // namespace mezzo::text

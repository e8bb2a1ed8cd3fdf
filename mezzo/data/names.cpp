#include "mezzo/data/names.h"

#include "mezzo/core/error.h"

namespace mezzo::data {

std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 10;
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == kMost) return concat(text, " and ", names.size() - kMost, " more");
    text += i == 0 ? "" : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace mezzo::data

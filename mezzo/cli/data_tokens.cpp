#include "mezzo/cli/data_tokens.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_set>

#include "mezzo/cli/print.h"
#include "mezzo/cli/table.h"
#include "mezzo/data/open.h"
#include "mezzo/io/utf8.h"

namespace mezzo::cli {
namespace {

struct Found {
  std::int64_t examined = 0;
  std::int64_t different = 0;
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  std::int64_t largest = 0;
};

Found look_at(const data::TokenSet& tokens, std::int64_t limit) {
  constexpr std::int64_t kAtOnce = 4096;
  Found found{.examined = std::min(tokens.size(), limit)};
  std::unordered_set<std::int64_t> seen;
  std::vector<std::int64_t> some(kAtOnce);
  for (std::int64_t first = 0; first < found.examined; first += kAtOnce) {
    some.resize(static_cast<std::size_t>(std::min(kAtOnce, found.examined - first)));
    tokens.read(first, some);
    for (const std::int64_t token : some) {
      seen.insert(token);
      found.smallest = std::min(found.smallest, token);
      found.largest = std::max(found.largest, token);
    }
  }
  found.different = std::ssize(seen);
  return found;
}

std::string width_text(const data::TokenSet& tokens) {
  return fmt::format("u{}", 8 * static_cast<int>(tokens.width()));
}

Json event_of(const std::string& spec, const char* split, const data::TokenSet& tokens,
              const Found& found) {
  return {{"event", "data"},
          {"data", io::escape_invalid_utf8(spec)},
          {"split", split},
          {"tokens", tokens.size()},
          {"stored_as", width_text(tokens)},
          {"examined", found.examined},
          {"different", found.different},
          {"smallest", found.smallest},
          {"largest", found.largest}};
}

}  // namespace

void show_tokens(const std::string& spec, const std::vector<data::Split>& splits,
                 std::optional<std::int64_t> limit, JsonLines& json) {
  std::vector<std::vector<std::string>> rows{
      {"split", "tokens", "stored as", "examined", "different", "smallest", "largest"}};
  for (const data::Split split : splits) {
    const char* const name = split == data::Split::kTrain ? "train" : "test";
    const auto tokens = data::open_tokens(spec, split);
    const Found found = look_at(*tokens, limit.value_or(tokens->size()));
    json.write(event_of(spec, name, *tokens, found));
    rows.push_back({name, std::to_string(tokens->size()), width_text(*tokens),
                    std::to_string(found.examined), std::to_string(found.different),
                    std::to_string(found.smallest), std::to_string(found.largest)});
  }
  write_out("{}", format_table(rows));
}

}  // namespace mezzo::cli

#include "mezzo/text/bpe_model.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::text {
namespace {

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U |
         static_cast<std::uint32_t>(right);
}

}  // namespace

BpeModel::BpeModel(BpeVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  rules_.reserve(vocabulary_.merges.size());
  std::int32_t rank = 0;
  for (const BpeMerge& merge : vocabulary_.merges) {
    // Of two merges of the same pair, the later one counts, as in Hugging Face's tokenizers.
    rules_.insert_or_assign(key_of(merge.left, merge.right), Rule{rank++, merge.merged});
  }
  by_bytes_.reserve(vocabulary_.tokens.size());
  std::int32_t id = 0;
  for (const std::string& token : vocabulary_.tokens) {
    if (!token.empty()) by_bytes_.emplace(token, id);
    ++id;
  }
}

std::int32_t BpeModel::find(std::string_view bytes) const {
  const auto found = by_bytes_.find(bytes);
  return found != by_bytes_.end() ? found->second : -1;
}

const BpeModel::Rule* BpeModel::find_rule(std::int32_t left, std::int32_t right) const {
  const auto found = rules_.find(key_of(left, right));
  return found != rules_.end() ? &found->second : nullptr;
}

void WordEncoder::encode(std::string_view word, std::vector<std::int32_t>& ids) {
  if (model_.vocabulary_.whole_words) {
    if (const std::int32_t id = model_.find(word); id >= 0) return ids.push_back(id);
  }
  begin(word);
  const auto is_later = [](const Candidate& a, const Candidate& b) {
    return std::pair(a.rank, a.place) > std::pair(b.rank, b.place);
  };
  std::ranges::make_heap(heap_, is_later);
  while (!heap_.empty()) {
    const Candidate first = heap_.front();
    std::ranges::pop_heap(heap_, is_later);
    heap_.pop_back();
    const std::size_t offered = heap_.size();
    merge(first.place, first.merged);
    for (std::size_t end = offered + 1; end <= heap_.size(); ++end) {
      std::push_heap(heap_.begin(), heap_.begin() + static_cast<std::ptrdiff_t>(end), is_later);
    }
  }
  for (const Symbol& symbol : symbols_) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

void WordEncoder::begin(std::string_view word) {
  symbols_.clear();
  heap_.clear();
  for (std::size_t i = 0; i < word.size(); ++i) {
    const std::int32_t id = model_.vocabulary_.of_byte[static_cast<unsigned char>(word[i])];
    MEZZO_INVARIANT(id >= 0);
    symbols_.push_back({id, i == 0 ? kNone : i - 1, i + 1 < word.size() ? i + 1 : kNone});
  }
  for (std::size_t i = 0; i < symbols_.size(); ++i) offer(i);
}

// Appends to the heap, which is put in order by the caller, what `place` and its right neighbour
// become.
void WordEncoder::offer(std::size_t place) {
  const Symbol& left = symbols_[place];
  if (left.next == kNone) return;
  const BpeModel::Rule* const rule = model_.find_rule(left.id, symbols_[left.next].id);
  if (rule != nullptr) heap_.push_back({rule->rank, rule->merged, place});
}

void WordEncoder::merge(std::size_t place, std::int32_t merged) {
  Symbol& left = symbols_[place];
  if (left.id < 0 || left.next == kNone) return;
  // One of the two may have become another token since this merge was offered.
  const BpeModel::Rule* const rule = model_.find_rule(left.id, symbols_[left.next].id);
  if (rule == nullptr || rule->merged != merged) return;
  Symbol& right = symbols_[left.next];
  left.id = merged;
  left.next = right.next;
  right.id = -1;
  if (left.next != kNone) symbols_[left.next].previous = place;
  if (left.previous != kNone) offer(left.previous);
  offer(place);
}

}  // namespace mezzo::text

// Module::load_state: everything is checked first, then everything is copied.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "mezzo/nn/f16_range.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {
namespace {

using Index = std::unordered_map<std::string_view, const Tensor*>;

// `; heading: a, b, c`, or nothing if there are no entries. Of many, those that tell which network
// it is: the first.
std::string listed(std::string_view heading, const std::vector<std::string>& entries) {
  constexpr std::size_t kMost = 8;
  if (entries.empty()) return "";
  std::string text = concat("; ", heading, ": ");
  for (std::size_t i = 0; i < std::min(entries.size(), kMost); ++i) {
    if (i > 0) text += ", ";
    text += entries[i];
  }
  if (entries.size() > kMost) text += concat(" and ", entries.size() - kMost, " more");
  return text;
}

Index index_of(std::span<const NamedTensor> state) {
  Index index;
  for (const NamedTensor& entry : state) {
    check_arg(entry.tensor.defined(), "load_state", entry.name, " is undefined. Leave it out");
    check_arg(index.emplace(entry.name, &entry.tensor).second, "load_state", entry.name,
              " appears twice. Keep one of them");
  }
  return index;
}

bool fits(const Tensor& from, const Tensor& to) {
  return from.shape() == to.shape() && is_floating(from.dtype()) == is_floating(to.dtype());
}

// Nothing is computed with the counter of a batch norm, and files from before PyTorch had it are
// without one.
bool may_be_missing(const NamedTensor& own) {
  return own.name.ends_with("num_batches_tracked") && own.tensor.dtype() == DType::kI64;
}

}  // namespace

void Module::load_state(std::span<const NamedTensor> state, bool strict) {
  Index given = index_of(state);
  std::vector<std::pair<const Tensor*, NamedTensor>> copies;
  std::vector<std::string> missing;
  std::vector<std::string> different;
  for (const NamedTensor& own : this->state()) {
    const auto found = given.find(own.name);
    if (found == given.end()) {
      if (!may_be_missing(own)) missing.push_back(own.name);
      continue;
    }
    const Tensor& value = *found->second;
    given.erase(found);
    if (fits(value, own.tensor)) {
      copies.emplace_back(&value, own);
    } else {
      different.push_back(concat(own.name, " is ", own.tensor, " here but ", value, " there"));
    }
  }
  std::vector<std::string> unexpected;
  for (const NamedTensor& entry : state) {
    if (given.contains(entry.name)) unexpected.push_back(entry.name);
  }
  if (!strict) {
    missing.clear();
    unexpected.clear();
  }
  const bool names_fit = missing.empty() && unexpected.empty();
  if (!names_fit || !different.empty()) {
    throw StateMismatch(
        concat("[load_state] the state does not fit the module", listed("missing", missing),
               listed("unexpected", unexpected), listed("different", different)),
        names_fit ? "Load the state of the same network"
                  : "Load with strict = false to take only the names in common");
  }
  for (const auto& [from, to] : copies) copy_elements(*from, to.tensor);
  for (const auto& [from, to] : copies) {
    if (from->dtype() != to.tensor.dtype()) warn_if_beyond_f16(to.name, to.tensor);
  }
}

void Module::load_state(const std::map<std::string, Tensor>& state, bool strict) {
  std::vector<NamedTensor> entries;
  entries.reserve(state.size());
  for (const auto& [name, tensor] : state) entries.push_back({name, tensor});
  load_state(entries, strict);
}

}  // namespace mezzo::nn

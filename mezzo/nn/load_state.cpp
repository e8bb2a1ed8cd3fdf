// Module::load_state: everything is checked first, then everything is copied.
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "mezzo/core/shared_tensors.h"
#include "mezzo/nn/load_matching.h"
#include "mezzo/nn/module.h"
#include "mezzo/nn/range_warning.h"

namespace mezzo::nn {
namespace {

using Index = std::unordered_map<std::string_view, const NamedTensor*>;

Index index_of(std::span<const NamedTensor> state) {
  Index index;
  for (const NamedTensor& entry : state) {
    check_arg(entry.tensor.defined(), "load_state", entry.name, " is undefined. Leave it out");
    check_arg(index.emplace(entry.name, &entry).second, "load_state", entry.name,
              " appears twice. Keep one of them");
  }
  return index;
}

// Whether both give the same bits in that dtype.
bool are_same(const Tensor& a, const Tensor& b, DType dtype) {
  const auto stored = [dtype](const Tensor& tensor) {
    const Tensor copy = empty(tensor.shape(), dtype);
    copy_elements(tensor.to(kCpuDevice), copy);
    return copy;
  };
  if (have_same_elements(*a.impl(), *b.impl())) return true;
  const Tensor first = stored(a);
  const Tensor second = stored(b);
  return first.numel() == 0 || std::memcmp(first.raw_data(), second.raw_data(), first.bytes()) == 0;
}

// Matches a state with a module's own tensors before it is loaded.
class Loading {
 public:
  Loading(std::span<const NamedTensor> given, std::vector<NamedTensor> own)
      : given_(given), own_(std::move(own)), first_own_(first_names(own_)) {
    const Index index = index_of(given);
    for (std::size_t i = 0; i < own_.size(); ++i) {
      const auto found = index.find(own_[i].name);
      if (found != index.end()) take(i, *found->second);
    }
    find_missing();
    find_unexpected();
  }

  // Throws StateMismatch unless the state fits; then copies it.
  void finish(bool strict);

 private:
  // Own entry i gets this value.
  struct Copy {
    std::size_t i;
    const NamedTensor* from;
  };

  void take(std::size_t i, const NamedTensor& value);
  void find_missing();
  void find_unexpected();

  std::span<const NamedTensor> given_;
  std::vector<NamedTensor> own_;
  std::vector<std::size_t> first_own_;  // one index shared by all names of a tensor
  std::unordered_map<std::size_t, const NamedTensor*> values_;  // key: that index
  std::unordered_set<std::string_view> names_taken_;
  std::vector<Copy> copies_;
  std::vector<std::string> missing_;
  std::vector<std::string> unexpected_;
  std::vector<std::string> different_;
  std::vector<std::string> contradictions_;
};

// The first value of a tensor is copied; values under its other names must be the same.
void Loading::take(std::size_t i, const NamedTensor& value) {
  const Tensor& own = own_[i].tensor;
  names_taken_.insert(own_[i].name);
  if (!can_load(value.tensor, own)) {
    different_.push_back(difference(own_[i], value.tensor));
    return;
  }
  const auto [other, is_first] = values_.emplace(first_own_[i], &value);
  if (is_first) {
    copies_.push_back({i, &value});
  } else if (!are_same(other->second->tensor, value.tensor, own.dtype())) {
    contradictions_.push_back(concat(other->second->name, " and ", value.name));
  }
}

// A tensor with a value under one of its names needs no other.
void Loading::find_missing() {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const NamedTensor& own = own_[i];
    const bool has_value = names_taken_.contains(own.name) || values_.contains(first_own_[i]);
    if (!has_value && !may_be_missing(own)) missing_.push_back(own.name);
  }
}

// Another name of a loaded tensor may be ignored.
void Loading::find_unexpected() {
  const std::vector<std::size_t> first = first_names(given_);
  std::unordered_set<std::size_t> taken;
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (names_taken_.contains(given_[i].name)) taken.insert(first[i]);
  }
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (!taken.contains(first[i])) unexpected_.push_back(given_[i].name);
  }
}

void Loading::finish(bool strict) {
  if (!strict) {
    missing_.clear();
    unexpected_.clear();
  }
  const bool names_fit = missing_.empty() && unexpected_.empty();
  if (!names_fit || !different_.empty() || !contradictions_.empty()) {
    throw StateMismatch(
        concat("[load_state] the state does not fit the module", listed("missing", missing_),
               listed("unexpected", unexpected_), listed("different", different_),
               listed("two values of one tensor", contradictions_)),
        !names_fit            ? "Load with strict = false to load only the names in common"
        : !different_.empty() ? "Load the state of the same network"
                              : "Leave one of the two names out");
  }
  for (const auto& [i, from] : copies_) copy_elements(from->tensor, own_[i].tensor);
  for (const auto& [i, from] : copies_) {
    const auto& [name, to] = own_[i];
    if (from->tensor.dtype() != to.dtype()) warn_if_beyond_range(name, to);
  }
}

}  // namespace

void Module::load_state(std::span<const NamedTensor> state, bool strict) {
  Loading(state, this->state()).finish(strict);
}

void Module::load_state(const std::map<std::string, Tensor>& state, bool strict) {
  std::vector<NamedTensor> entries;
  entries.reserve(state.size());
  for (const auto& [name, tensor] : state) entries.push_back({name, tensor});
  load_state(entries, strict);
}

}  // namespace mezzo::nn

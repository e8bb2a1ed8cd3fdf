#include "mezzo/core/shared_tensors.h"

#include <map>
#include <numeric>
#include <utility>

namespace mezzo {

std::vector<std::size_t> first_names(std::span<const NamedTensor> tensors) {
  using Place = std::pair<const Storage*, std::int64_t>;
  // of tensors that begin at one place
  std::map<Place, std::vector<std::vector<std::size_t>>> groups;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i].tensor;
    if (tensor.numel() == 0) continue;
    auto& here = groups[{tensor.storage().get(), tensor.offset()}];
    const auto group = std::ranges::find_if(here, [&](const auto& names) {
      return have_same_elements(*tensors[names.front()].tensor.impl(), *tensor.impl());
    });
    if (group == here.end()) {
      here.push_back({i});
    } else {
      group->push_back(i);
    }
  }
  std::vector<std::size_t> first(tensors.size());
  std::iota(first.begin(), first.end(), std::size_t{0});
  for (const auto& [place, here] : groups) {
    for (const std::vector<std::size_t>& names : here) {
      const std::size_t least = *std::ranges::min_element(
          names, {}, [&](std::size_t i) -> const std::string& { return tensors[i].name; });
      for (const std::size_t i : names) first[i] = least;
    }
  }
  return first;
}

}  // namespace mezzo

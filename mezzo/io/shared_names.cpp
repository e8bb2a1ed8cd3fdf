#include "mezzo/io/shared_names.h"

#include <set>
#include <utility>

#include "mezzo/core/shared_tensors.h"
#include "mezzo/io/safetensors_header.h"

namespace mezzo::io {

NamesToWrite names_to_write(std::span<const NamedTensor> tensors,
                            const SafetensorsMetadata& metadata) {
  NamesToWrite result{std::vector<bool>(tensors.size()), metadata};
  const std::vector<std::size_t> first = first_names(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (first[i] == i || metadata.contains(tensors[i].name)) continue;
    result.is_left_out[i] = true;
    result.metadata.emplace(tensors[i].name, tensors[first[i]].name);
  }
  return result;
}

void restore_names(SafetensorsFile& file) {
  std::set<std::string, std::less<>> stored;
  for (const NamedTensor& entry : file.tensors) stored.insert(entry.name);
  std::map<std::string, std::vector<std::string>> others;  // of each tensor
  std::erase_if(file.metadata, [&](const auto& entry) {
    const auto& [key, value] = entry;
    const bool is_name = stored.contains(value) && !stored.contains(key) &&
                         key != kSafetensorsMetadataKey && key != kSafetensorsFormatKey;
    if (is_name) others[value].push_back(key);
    return is_name;
  });
  if (others.empty()) return;
  std::vector<NamedTensor> all;
  for (NamedTensor& entry : file.tensors) {
    const auto found = others.find(entry.name);
    all.push_back(std::move(entry));
    if (found == others.end()) continue;
    const Tensor tensor = all.back().tensor;
    for (const std::string& name : found->second) all.push_back({name, tensor});
  }
  file.tensors = std::move(all);
}

}  // namespace mezzo::io

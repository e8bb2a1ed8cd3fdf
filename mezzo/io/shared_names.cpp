#include "mezzo/io/shared_names.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "mezzo/core/shared_tensors.h"
#include "mezzo/io/safetensors_header.h"

namespace mezzo::io {
namespace {

// Marks the key of an entry that is not another name of a tensor.
constexpr std::string_view kTextMark = "mezzo.text:";

std::string mark_of(std::string_view key) { return std::string(kTextMark) + std::string(key); }

using Names = std::set<std::string, std::less<>>;

// Whether an entry reads as another name (its key) of the tensor that its value names.
bool looks_like_name(const std::string& key, const std::string& value, const Names& stored) {
  return stored.contains(value) && !stored.contains(key) && key != kSafetensorsMetadataKey &&
         key != kSafetensorsFormatKey;
}

}  // namespace

NamesToWrite names_to_write(std::span<const NamedTensor> tensors,
                            const SafetensorsMetadata& metadata) {
  NamesToWrite result{std::vector<bool>(tensors.size()), metadata};
  const std::vector<std::size_t> first = first_names(tensors);
  Names stored;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    if (first[i] == i || metadata.contains(name) || name == kSafetensorsFormatKey) {
      stored.insert(name);
      continue;
    }
    result.is_left_out[i] = true;
    result.metadata.emplace(name, tensors[first[i]].name);
  }
  for (const auto& [key, value] : metadata) {
    if (looks_like_name(key, value, stored)) result.metadata.emplace(mark_of(key), "");
  }
  return result;
}

void restore_names(SafetensorsFile& file) {
  Names stored;
  for (const NamedTensor& entry : file.tensors) stored.insert(entry.name);
  std::map<std::string, std::vector<std::string>> others;  // of each tensor
  const SafetensorsMetadata all_metadata = std::exchange(file.metadata, {});
  for (const auto& [key, value] : all_metadata) {
    const bool is_mark =
        key.starts_with(kTextMark) && all_metadata.contains(key.substr(kTextMark.size()));
    if (is_mark) continue;
    if (looks_like_name(key, value, stored) && !all_metadata.contains(mark_of(key))) {
      others[value].push_back(key);
    } else {
      file.metadata.emplace(key, value);
    }
  }
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

#include "mezzo/nn/load_matching.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "mezzo/core/shared_tensors.h"
#include "mezzo/nn/parameter_names.h"

namespace mezzo::nn {
namespace {

bool is_below(std::string_view name, std::string_view path) {
  return name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '.');
}

bool is_left_out(std::string_view name, const std::vector<std::string>& paths) {
  return std::ranges::any_of(paths, [&](const std::string& path) { return is_below(name, path); });
}

// The module's names below the paths that are left out, including all other names of those tensors.
std::unordered_set<std::string_view> names_left_out(std::span<const NamedTensor> own,
                                                    const std::vector<std::string>& paths) {
  const std::vector<std::size_t> first = first_names(own);
  std::unordered_set<std::size_t> tensors;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (is_left_out(own[i].name, paths)) tensors.insert(first[i]);
  }
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (tensors.contains(first[i])) names.insert(own[i].name);
  }
  return names;
}

}  // namespace

bool can_load(const Tensor& from, const Tensor& to) {
  return from.shape() == to.shape() && is_floating(from.dtype()) == is_floating(to.dtype());
}

bool may_be_missing(const NamedTensor& own) {
  return own.name.ends_with("num_batches_tracked") && own.tensor.dtype() == DType::kI64;
}

std::string difference(const NamedTensor& own, const Tensor& given) {
  return concat(own.name, " is ", own.tensor, " here but ", given, " there");
}

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

std::string LoadReport::text() const {
  const std::string all = listed("missing", missing) + listed("unexpected", unexpected) +
                          listed("different", different);
  return all.empty() ? all : all.substr(2);
}

LoadReport load_matching(Module& net, std::span<const NamedTensor> state,
                         const std::vector<std::string>& left_out) {
  const std::vector<NamedTensor> own = net.state();
  std::unordered_map<std::string_view, const NamedTensor*> by_name;
  for (const NamedTensor& entry : own) by_name.emplace(entry.name, &entry);
  const std::unordered_set<std::string_view> stays = names_left_out(own, left_out);
  LoadReport report;
  std::vector<NamedTensor> fitting;
  std::unordered_set<std::string_view> given;
  std::unordered_set<const TensorImpl*> filled;  // by any of its names
  for (const NamedTensor& entry : state) {
    given.insert(entry.name);
    const auto found = by_name.find(entry.name);
    if (stays.contains(entry.name) || is_left_out(entry.name, left_out)) {
      report.left_out.push_back(entry.name);
    } else if (found == by_name.end()) {
      report.unexpected.push_back(entry.name);
    } else if (entry.tensor.defined() && !can_load(entry.tensor, found->second->tensor)) {
      report.different.push_back(difference(*found->second, entry.tensor));
    } else {
      report.taken.push_back(entry.name);
      filled.insert(found->second->tensor.impl());
      fitting.push_back(entry);  // load_state() refuses an undefined one
    }
  }
  for (const NamedTensor& entry : own) {
    const bool is_wanted = !stays.contains(entry.name) && !may_be_missing(entry);
    const bool is_there = given.contains(entry.name) || filled.contains(entry.tensor.impl());
    if (is_wanted && !is_there) report.missing.push_back(entry.name);
  }
  check_arg(!fitting.empty(), "load_matching", "no entry of the state fits the module",
            report.text().empty() ? "" : "; ", report.text(),
            ". Load the state of a network of the same kind");
  net.load_state(fitting, false);
  return report;
}

std::string head_of(const Module& net) {
  const std::vector<NamedTensor> parameters = parameter_names(net).entries;
  if (parameters.empty()) return {};
  const std::string& last = parameters.back().name;
  const std::size_t dot = last.rfind('.');
  return dot != std::string::npos ? last.substr(0, dot) : std::string();
}

}  // namespace mezzo::nn

#include "mezzo/ops/dispatcher/describe.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/device_backend.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/dispatcher/registry.h"

namespace mezzo {
namespace {

std::string kernel_names(const RegisteredOp& entry, DeviceType device) {
  if (entry.op->view != nullptr) return "view";
  std::string names;
  if (const KernelList* list = entry.kernels.on(device)) {
    for (const Kernel& kernel : list->entries()) names += concat(kernel.name, ", ");
  }
  return names + "reference";
}

std::array<std::string, kLowerDTypes.size()> classes_of(const PrecisionRule& rule) {
  std::array<std::string, kLowerDTypes.size()> classes;
  std::ranges::transform(kLowerDTypes, classes.begin(),
                         [&rule](DType dtype) { return name_of(rule.of(dtype)); });
  return classes;
}

// Writes a row of cells. A bar ends a cell, even within code, unless a backslash precedes it.
std::string table_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string_view cell : cells) {
    row += ' ';
    for (const char c : cell) {
      if (c == '|') row += '\\';
      row += c;
    }
    row += " |";
  }
  return row + '\n';
}

// The line between the head of a table and its rows.
std::string table_rule(std::size_t columns) {
  std::string rule = "|";
  for (std::size_t i = 0; i < columns; ++i) rule += "---|";
  return rule + '\n';
}

}  // namespace

std::vector<OpDescription> describe_ops() {
  const bool with_cuda = find_device_backend(DeviceType::kCuda) != nullptr;
  std::vector<OpDescription> result;
  for (const RegisteredOp& entry : registered_ops()) {
    const OpDef& op = *entry.op;
    result.push_back(
        {.name = op.name,
         .doc = op.doc,
         .precision = classes_of(op.precision),
         .reason = op.precision.reason,
         .differentiable = op.backward != nullptr,
         .cpu_kernels = kernel_names(entry, DeviceType::kCpu),
         .cuda_kernels = with_cuda ? kernel_names(entry, DeviceType::kCuda) : std::string()});
  }
  std::sort(result.begin(), result.end(),
            [](const OpDescription& a, const OpDescription& b) { return a.name < b.name; });
  return result;
}

std::string ops_as_markdown() {
  std::string text =
      "# Operations\n\nWritten by `mezzo ops --markdown` from the definitions in `mezzo/ops`; do "
      "not edit.\n\nThe classes say what a mixed-precision region does with an operation's inputs: "
      "`lower` casts them to 16 bits, `float32` to f32, `widest` to the widest among them, "
      "`follow` takes them as they come, `refuse` throws. `reference` is the plain loop in double "
      "precision, the last resort for every dtype. CUDA kernels are listed by `mezzo ops` where "
      "CUDA is built in.\n\n";
  std::vector<std::string> head{"op", "what it is"};
  for (const DType dtype : kLowerDTypes) head.emplace_back(name_of(dtype));
  for (const char* column : {"why", "gradient", "CPU kernels"}) head.emplace_back(column);
  text += table_row(head) + table_rule(head.size());
  for (const OpDescription& op : describe_ops()) {
    std::vector<std::string> row{concat("`", op.name, "`"), op.doc};
    row.insert(row.end(), op.precision.begin(), op.precision.end());
    row.insert(row.end(), {op.reason, op.differentiable ? "yes" : "no", op.cpu_kernels});
    text += table_row(row);
  }
  return text;
}

}  // namespace mezzo

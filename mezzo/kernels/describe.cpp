#include "mezzo/ops/dispatcher/describe.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

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

// A bar ends a cell, within code, too, unless a backslash is before it.
std::string table_row(std::initializer_list<std::string_view> cells) {
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

}  // namespace

std::vector<OpDescription> describe_ops() {
  const bool with_cuda = find_device_backend(DeviceType::kCuda) != nullptr;
  std::vector<OpDescription> result;
  for (const RegisteredOp& entry : registered_ops()) {
    const OpDef& op = *entry.op;
    result.push_back(
        {.name = op.name,
         .doc = op.doc,
         .bf16 = name_of(op.precision.bf16),
         .f16 = name_of(op.precision.f16),
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
      "# Operations\n\n"
      "Written by `mezzo ops --markdown` from the definitions in `mezzo/ops`; do not edit.\n\n"
      "The classes say what a mixed-precision region does with an operation's inputs: `lower` "
      "casts "
      "them to 16 bits, `float32` to f32, `widest` to the widest among them, `follow` takes them "
      "as "
      "they come, `refuse` throws. `reference` is the plain loop in double precision, the last "
      "resort for every dtype. Kernels for cards are listed by `mezzo ops` where CUDA is built "
      "in.\n\n"
      "| op | what it is | bf16 | f16 | why | gradient | CPU kernels |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const OpDescription& op : describe_ops()) {
    text += table_row({concat("`", op.name, "`"), op.doc, op.bf16, op.f16, op.reason,
                       op.differentiable ? "yes" : "no", op.cpu_kernels});
  }
  return text;
}

}  // namespace mezzo

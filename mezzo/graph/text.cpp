#include "mezzo/graph/text.h"

#include <algorithm>
#include <span>

#include "mezzo/amp/policy.h"

namespace mezzo::graph {
namespace {

std::string list_of(std::span<const ValueId> values, const ValueNames& names) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += concat(i == 0 ? "" : ", ", names[values[i]]);
  }
  return text;
}

std::string definition(const Program& program, ValueId value, const ValueNames& names) {
  const bool known = value < program.values.size();
  return concat(names[value], ": ", known ? to_text(program.spec(value)) : "?");
}

std::string policy_text(const amp::Policy& policy) {
  std::string text = concat(" [", policy.level, "/", policy.lower);
  if (policy.keep_batchnorm_fp32.has_value()) {
    text += concat(" keep_batchnorm_fp32=", *policy.keep_batchnorm_fp32);
  }
  if (policy.rules != nullptr) text += " rules";
  return text + "]";
}

// The part of a line after the inputs.
std::string details_of(const Node& node, const ValueNames& names) {
  std::string text;
  const std::string attrs = node.attrs.to_text();
  if (!attrs.empty()) text += concat(" {", attrs, "}");
  const bool is_over =
      std::ranges::any_of(node.over, [](ValueId value) { return value != kNoValue; });
  if (is_over) text += concat(" over(", list_of(node.over, names), ")");
  if (!node.path.empty()) text += concat(" @", node.path);
  if (node.policy != nullptr) text += policy_text(*node.policy);
  if (node.paint.has_value()) text += concat(" in ", *node.paint);
  if (!node.reason.empty()) text += concat(" because \"", escaped(node.reason), "\"");
  if (node.phase != Phase::kForward) text += concat(" #", name_of(node.phase));
  return text;
}

}  // namespace

ValueNames::ValueNames(const Program& program) {
  for (const ValueId value : program.inputs) note(program, value);
  for (std::size_t value = 0; value < program.values.size(); ++value) {
    const bool is_state = program.values[value].kind == ValueKind::kState;
    if (is_state) note(program, static_cast<ValueId>(value));
  }
  for (const Node& node : program.nodes) {
    for (const ValueId value : node.inputs) note(program, value);
    for (const ValueId value : node.outputs) note(program, value);
  }
  for (const ValueId value : program.outputs) note(program, value);
}

void ValueNames::note(const Program& program, ValueId value) {
  if (value >= program.values.size() || names_.contains(value)) return;
  const std::string& name = program.values[value].name;
  names_[value] = name.empty() ? concat('%', unnamed_++) : name;
}

std::string ValueNames::operator[](ValueId value) const {
  if (value == kNoValue) return "_";
  const auto found = names_.find(value);
  return found == names_.end() ? "%?" : found->second;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

std::string to_text(const ValueSpec& spec) {
  std::string text = concat(spec.dtype, spec.shape);
  if (spec.strides == strides_for(spec.shape, Format::kContiguous)) return text;
  if (spec.strides == strides_for(spec.shape, Format::kChannelsLast)) {
    return text + " channels_last";
  }
  return text + concat(" strides=", spec.strides);
}

std::string to_text(const Program& program, const Node& node, const ValueNames& names) {
  std::string text;
  for (const ValueId output : node.outputs) {
    text += concat(text.empty() ? "" : ", ", definition(program, output, names));
  }
  if (!text.empty()) text += " = ";
  text += node.is_host() ? concat("host ", node.host) : node.op->name;
  return text + concat("(", list_of(node.inputs, names), ")", details_of(node, names));
}

std::string to_text(const Program& program) {
  const ValueNames names(program);
  std::string text = "program(";
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    text += concat(i == 0 ? "" : ", ", definition(program, program.inputs[i], names));
  }
  text += ")";
  if (program.device != kCpuDevice) text += concat(" on ", program.device);
  text += " {\n";
  for (std::size_t value = 0; value < program.values.size(); ++value) {
    if (program.values[value].kind != ValueKind::kState) continue;
    text += concat("  state ", definition(program, static_cast<ValueId>(value), names), "\n");
  }
  for (const Node& node : program.nodes) text += concat("  ", to_text(program, node, names), "\n");
  const char* space = program.outputs.empty() ? "" : " ";
  return text + concat("  return", space, list_of(program.outputs, names), "\n}\n");
}

}  // namespace mezzo::graph

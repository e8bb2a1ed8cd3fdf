// Programs for the tests of precision passes, and their paint in one line.
#pragma once

#include <string>
#include <string_view>

#include "mezzo/graph/passes/paint_precision.h"
#include "mezzo/graph/program.h"
#include "mezzo/graph/text.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo::graph {

// Adds attributes to a call without them: those of the operation's first sample.
inline std::string with_attrs(std::string_view line) {
  const std::size_t name = line.find(" = ");
  const std::size_t open = line.find('(', name);
  if (name == line.npos || open == line.npos) return std::string(line);
  const OpDef* op = find_op(line.substr(name + 3, open - name - 3));
  const std::size_t end = line.find(')', open) + 1;
  const std::string attrs = op != nullptr ? op->samples().at(0).attrs.to_text() : "";
  if (attrs.empty() || line.substr(end).starts_with(" {")) return std::string(line);
  return concat(line.substr(0, end), " {", attrs, "}", line.substr(end));
}

inline Program program_in(std::string_view text) {
  std::string full;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    full += with_attrs(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parse_program(full);
}

// `linear bf16, relu bf16, softmax f32, add -`.
inline std::string paints_of(Program& program) {
  paint_precision(program);
  std::string text;
  for (const Node& node : program.nodes) {
    text += concat(text.empty() ? "" : ", ", node.is_host() ? node.host.c_str() : node.op->name,
                   ' ', node.paint.has_value() ? name_of(*node.paint) : "-");
  }
  return text;
}

}  // namespace mezzo::graph

#include "mezzo/graph/dot.h"

#include <string_view>
#include <vector>

#include "mezzo/graph/report.h"
#include "mezzo/graph/text.h"

namespace mezzo::graph {
namespace {

// ColorBrewer's pastels, on which black text is legible.
const char* fill_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "#a6cee3";
    case DType::kBf16: return "#fdbf6f";
    case DType::kF16: return "#b2df8a";
    case DType::kE4m3: return "#fb9a99";
    case DType::kE5m2: return "#ffff99";
    case DType::kF64: return "#cab2d6";
    default: return "#d9d9d9";
  }
}

constexpr std::string_view kHead = R"(digraph program {
  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11];
  edge [fontname="sans-serif", fontsize=8, color="#666666"];
)";
constexpr std::string_view kStateLook =
    R"(shape=oval, style=filled, fillcolor="#f7f7f7", fontsize=8, height=0.2, margin="0.05,0.02")";

class Drawing {
 public:
  explicit Drawing(const Program& program)
      : program_(program),
        names_(program),
        makers_(makers(program)),
        is_drawn_(program.values.size(), false) {}

  std::string run() {
    text_ = kHead;
    for (const ValueId input : program_.inputs) draw_given(input);
    for (const Node& node : program_.nodes) {
      for (const ValueId input : node.inputs) draw_given(input);
    }
    for (const ValueId output : program_.outputs) draw_given(output);
    for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate}) draw_phase(phase);
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) draw_edges_to(i);
    draw_return();
    return text_ + "}\n";
  }

 private:
  // Draws an input or a state, once.
  void draw_given(ValueId value) {
    if (value == kNoValue || makers_[value] != kNoNode || is_drawn_[value]) return;
    is_drawn_[value] = true;
    const bool is_state = program_.values[value].kind == ValueKind::kState;
    text_ += concat("  ", place_of(value), " [label=\"", escaped(names_[value]), "\", ",
                    is_state ? kStateLook : "shape=oval, style=filled, fillcolor=white", "];\n");
  }

  void draw_phase(Phase phase) {
    std::string body;
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      if (program_.nodes[i].phase == phase) body += concat("    ", drawn(i));
    }
    if (body.empty()) return;
    text_ += concat("  subgraph cluster_", name_of(phase), " {\n    label=\"", name_of(phase),
                    "\"; color=\"#bbbbbb\"; fontname=\"sans-serif\";\n", body, "  }\n");
  }

  std::string drawn(std::size_t i) const {
    const Node& node = program_.nodes[i];
    const std::string tooltip = escaped(to_text(program_, node, names_));
    if (node.is_host()) {
      return concat("n", i, " [label=\"", escaped(node.host), "\", style=solid, tooltip=\"",
                    tooltip, "\"];\n");
    }
    const std::string path = node.path.empty() ? "" : concat("\\n", escaped(node.path));
    return concat("n", i, " [label=\"", escaped(node.op->name), path, "\", fillcolor=\"",
                  fill_of(computing_dtype(program_, node)), "\", tooltip=\"", tooltip, "\"];\n");
  }

  // The name of the node that makes a value.
  std::string place_of(ValueId value) const {
    const std::size_t maker = makers_[value];
    return maker == kNoNode ? concat("v", value) : concat("n", maker);
  }

  void draw_edge(ValueId value, std::string_view to) {
    const ValueSpec& spec = program_.spec(value);
    text_ += concat("  ", place_of(value), " -> ", to, " [label=\"",
                    escaped(concat(spec.dtype, spec.shape)), "\"];\n");
  }

  void draw_edges_to(std::size_t i) {
    const Node& node = program_.nodes[i];
    bool reads = false;
    for (const ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      draw_edge(input, concat("n", i));
      reads = true;
    }
    if (node.is_host() && !reads && i > 0) {
      text_ += concat("  n", i - 1, " -> n", i, " [style=dotted];\n");
    }
  }

  void draw_return() {
    if (program_.outputs.empty()) return;
    text_ += "  return [shape=plaintext, style=solid];\n";
    for (const ValueId output : program_.outputs) draw_edge(output, "return");
  }

  const Program& program_;
  ValueNames names_;
  std::vector<std::size_t> makers_;
  std::vector<bool> is_drawn_;
  std::string text_;
};

}  // namespace

std::string to_dot(const Program& program) { return Drawing(program).run(); }

}  // namespace mezzo::graph

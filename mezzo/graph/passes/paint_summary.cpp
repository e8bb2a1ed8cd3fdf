#include "mezzo/graph/passes/paint_summary.h"

#include <algorithm>
#include <set>

#include "mezzo/graph/rewrite.h"

namespace mezzo::graph {
namespace {

class Summary {
 public:
  explicit Summary(const Program& program) : program_(program), makers_(makers(program)) {}

  PaintSummary run() {
    for (const Node& node : program_.nodes) {
      if (!node.is_host() && node.phase == Phase::kForward) count(node);
    }
    if (lower_.size() == 1) result_.lower = *lower_.begin();
    return result_;
  }

 private:
  DType dtype_of(ValueId value) const { return program_.spec(value).dtype; }

  // True for a cast to 16 bits or back.
  bool is_precision_cast(const Node& node) const {
    if (!is_cast(node)) return false;
    const DType from = dtype_of(node.inputs[0]);
    const DType to = dtype_of(node.outputs[0]);
    return amp::takes_part(from) && amp::takes_part(to) && from != to;
  }

  void count(const Node& node) {
    if (is_precision_cast(node)) {
      ++(is_of_parameter(node) ? result_.parameter_casts : result_.casts);
      return;
    }
    ++result_.ops;
    if (is_lower_op(node)) {
      ++result_.ops_lower;
    } else if (touches_f32(node)) {
      ++result_.ops_f32;
    }
  }

  // True for the cast of a state, or the cast back of a state that is rounded.
  bool is_of_parameter(const Node& cast) const {
    const ValueId source = cast.inputs[0];
    if (program_.values[source].kind == ValueKind::kState) return true;
    const std::size_t maker = makers_[source];
    if (maker == kNoNode || !is_cast(program_.nodes[maker])) return false;
    return program_.values[program_.nodes[maker].inputs[0]].kind == ValueKind::kState;
  }

  bool is_lower_op(const Node& node) {
    bool any = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != kNoValue && node.op->precision.may_cast(i)) any |= note(node.inputs[i]);
    }
    for (const ValueId output : node.outputs) any |= note(output);
    return any;
  }

  bool note(ValueId value) {
    const DType dtype = dtype_of(value);
    if (is_lower(dtype)) lower_.insert(dtype);
    return is_lower(dtype);
  }

  bool touches_f32(const Node& node) const {
    const auto is_f32 = [&](ValueId value) {
      return value != kNoValue && dtype_of(value) == DType::kF32;
    };
    return std::ranges::any_of(node.inputs, is_f32) || std::ranges::any_of(node.outputs, is_f32);
  }

  const Program& program_;
  std::vector<std::size_t> makers_;
  PaintSummary result_{};
  std::set<DType> lower_;
};

}  // namespace

PaintSummary summarize(const Program& program) { return Summary(program).run(); }

std::string to_text(const PaintSummary& summary) {
  if (summary.ops_lower == 0) return concat("converted none of ", summary.ops, " operations");
  const std::string to = summary.lower.has_value() ? name_of(*summary.lower) : "16 bits";
  std::string text = concat("converted ", summary.ops_lower, " of ", summary.ops, " operations to ",
                            to, " with ", summary.casts, summary.casts == 1 ? " cast" : " casts");
  if (summary.parameter_casts > 0)
    text += concat(" (and ", summary.parameter_casts, " of parameters)");
  return text;
}

}  // namespace mezzo::graph

#include <algorithm>
#include <optional>
#include <vector>

#include "mezzo/graph/passes/infer_specs.h"
#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/all.h"

namespace mezzo::graph {
namespace {

// The same call on the 16-bit values that its f32 inputs were cast from.
struct Narrowed {
  DType dtype = DType::kBf16;
  std::vector<ValueId> inputs{};
  std::vector<ValueSpec> outputs{};
};

class CastFuser {
 public:
  explicit CastFuser(Program& program)
      : program_(program), makers_(makers(program)), readers_(readers(program)), memory_(program) {}

  bool fuse(std::size_t i) {
    const std::optional<Narrowed> narrowed = narrowed_call(i);
    if (!narrowed.has_value()) return false;
    Node& node = program_.nodes[i];
    for (ValueId& over : node.over) over = source_beside(node, *narrowed, over);
    node.inputs = narrowed->inputs;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      program_.values[node.outputs[k]].spec = narrowed->outputs[k];
    }
    return true;
  }

 private:
  const ValueSpec& spec(ValueId value) const { return program_.spec(value); }

  std::optional<Narrowed> narrowed_call(std::size_t i) const {
    const Node& node = program_.nodes[i];
    if (!is_call(node) || !can_fuse_casts(*node.op)) return std::nullopt;
    Narrowed narrowed{.inputs = node.inputs};
    std::optional<DType> dtype;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (!node.op->precision.may_cast(k) || node.inputs[k] == kNoValue) continue;
      const ValueId source = source_of(node.inputs[k], i);
      if (source == kNoValue || spec(source).dtype != dtype.value_or(spec(source).dtype)) {
        return std::nullopt;
      }
      dtype = spec(source).dtype;
      narrowed.inputs[k] = source;
    }
    if (!dtype.has_value()) return std::nullopt;
    narrowed.dtype = *dtype;
    narrowed.outputs = specs_of(node, narrowed.inputs);
    return can_narrow_results(node, narrowed) ? std::optional(narrowed) : std::nullopt;
  }

  // The 16-bit source of an f32 value, if it has the same layout and is unchanged until node i;
  // else kNoValue.
  ValueId source_of(ValueId value, std::size_t i) const {
    const std::size_t maker = makers_[value];
    if (maker == kNoNode || !is_cast(program_.nodes[maker])) return kNoValue;
    const ValueId source = program_.nodes[maker].inputs[0];
    const bool widens = spec(value).dtype == DType::kF32 && is_lower(spec(source).dtype);
    const bool is_same = widens && same_layout(spec(value), spec(source)) &&
                         !memory_.may_change(value) && memory_.is_same_at(source, maker, i);
    return is_same ? source : kNoValue;
  }

  std::vector<ValueSpec> specs_of(const Node& node, const std::vector<ValueId>& inputs) const {
    std::vector<const ValueSpec*> specs;
    specs.reserve(inputs.size());
    for (const ValueId input : inputs) {
      specs.push_back(input != kNoValue ? &program_.spec(input) : nullptr);
    }
    return infer_specs(*node.op, node.attrs, specs);
  }

  // True if each result either keeps its dtype or becomes a 16-bit one that all readers round it to
  // anyway, and at least one does the latter.
  bool can_narrow_results(const Node& node, const Narrowed& narrowed) const {
    bool any = false;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueId output = node.outputs[k];
      if (narrowed.outputs[k] == spec(output)) continue;
      const bool is_narrow = narrowed.outputs[k].dtype == narrowed.dtype &&
                             narrowed.outputs[k].strides == spec(output).strides;
      if (!is_narrow || !is_only_rounded(output, narrowed.dtype)) return false;
      any = true;
    }
    return any;
  }

  bool is_only_rounded(ValueId value, DType dtype) const {
    return !memory_.is_returned(value) && !readers_[value].empty() &&
           std::ranges::all_of(readers_[value], [&](std::size_t reader) {
             const Node& node = program_.nodes[reader];
             return is_cast(node) && spec(node.outputs[0]).dtype == dtype;
           });
  }

  // The value that a result may overwrite now: the source of the cast input, unless that outlives
  // the run.
  ValueId source_beside(const Node& node, const Narrowed& narrowed, ValueId over) const {
    const auto found = std::ranges::find(node.inputs, over);
    if (over == kNoValue || found == node.inputs.end()) return over;
    const ValueId source = narrowed.inputs[found - node.inputs.begin()];
    const bool is_result = program_.values[memory_.owner(source)].kind == ValueKind::kResult;
    return is_result ? source : kNoValue;
  }

  Program& program_;
  std::vector<std::size_t> makers_;
  std::vector<std::vector<std::size_t>> readers_;
  MemoryUse memory_;
};

// Narrowing one call may make the inputs of the next one 16-bit.
bool fuse_one(Program& program) {
  CastFuser fuser(program);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    if (fuser.fuse(i)) return true;
  }
  return false;
}

}  // namespace

bool can_fuse_casts(const OpDef& op) {
  // Products and their gradients have separate kernels for 16 bits, with another order of
  // summation. A view computes nothing, and a cast is what this pass removes.
  const bool is_product = op.flops != nullptr || op.precision.lower == PrecisionClass::kLower;
  return op.infer != nullptr && !is_product && op.view == nullptr && &op != &ops::cast;
}

std::size_t fuse_casts(Program& program) {
  std::size_t fused = 0;
  while (fuse_one(program)) {
    ++fused;
    fold_casts(program);  // casts of its results are redundant now
  }
  return fused;
}

}  // namespace mezzo::graph

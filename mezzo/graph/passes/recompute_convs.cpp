#include <algorithm>
#include <map>
#include <vector>

#include "mezzo/graph/memory_plan.h"
#include "mezzo/graph/norms_by_readers.h"
#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/passes/recompute.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo::graph {
namespace {

constexpr std::size_t kImages = 0;  // the image among a convolution's inputs; the input of a cast

// The unit of work is one arithmetic operation of a product. In 16 bits, moving a byte takes about
// as long as this many of them. In f32 it matters little, since arithmetic dominates there.
constexpr double kWorkPerByte = 64;
// The share of a program's work that the pass may add.
constexpr double kMostMoreWork = 0.015;

bool is_conv(const Node& node) {
  return is_call(node, ops::conv2d) || is_call(node, ops::conv2d_activation);
}

// Inputs from the caller exist for the whole run and take no space in the arena.
bool is_cast_of_input(const Program& program, const Node& node) {
  return is_cast(node) && program.values[node.inputs[0]].kind == ValueKind::kInput;
}

double bytes_moved(const Program& program, const Node& node) {
  double bytes = 0;
  for (const std::vector<ValueId>& values : {node.inputs, node.outputs}) {
    for (const ValueId value : values) {
      if (value != kNoValue) bytes += static_cast<double>(program.spec(value).bytes());
    }
  }
  return bytes;
}

double flops(const Program& program, const Node& node) {
  // An operation that fuses a convolution and its activation has the count of the convolution
  // inside.
  const OpDef& op = is_conv(node) ? ops::conv2d : *node.op;
  if (op.flops == nullptr) return 0;
  StandIns call(program, node);
  return op.flops(call.inputs(), call.outputs(), node.attrs);
}

double work(const Program& program, const Node& node) {
  if (node.is_host() || node.op->view != nullptr || is_parameter_copy(program, node)) return 0;
  return flops(program, node) + kWorkPerByte * bytes_moved(program, node);
}

// The results of norms that the backward pass recomputes (recompute_norms). The key is the mean
// that they read, which only the original norm has found.
class RecomputedNorms {
 public:
  explicit RecomputedNorms(const Program& program) : program_(program), makers_(makers(program)) {
    for (std::size_t i = 0; i < program.nodes.size(); ++i) {
      const Node& node = program.nodes[i];
      if (!is_norm_by_given(node) || node.phase != Phase::kBackward) continue;
      nodes_[node.inputs[BatchNormInput::kRunningMean]] = i;
    }
  }

  // The node that recomputes the value; kNoNode if it is not the result of such a norm.
  std::size_t find(ValueId value) const {
    const std::size_t maker = makers_[value];
    if (maker == kNoNode || program_.nodes[maker].outputs.size() < 2) return kNoNode;
    const Node& norm = program_.nodes[maker];
    const auto found = nodes_.find(norm.outputs[1]);
    if (found == nodes_.end() || norm.outputs[0] != value) return kNoNode;
    const Node& again = program_.nodes[found->second];
    using In = BatchNormInput;
    return again.op == norm.op && again.inputs[In::kX] == norm.inputs[In::kX] ? found->second
                                                                              : kNoNode;
  }

 private:
  const Program& program_;
  std::vector<std::size_t> makers_;
  std::map<ValueId, std::size_t> nodes_;
};

// A convolution or a cast that could be recomputed.
struct Candidate {
  Kept kept{};
  double work = 0;
  std::size_t bytes = 0;

  double work_per_byte() const { return work / static_cast<double>(bytes); }
};

class Candidates {
 public:
  explicit Candidates(const Program& program)
      : program_(program),
        use_(program),
        readers_(readers(program)),
        norms_(program),
        by_readers_(norms_by_readers(program)) {}

  std::vector<Candidate> cheapest_first() const {
    const auto may_go = [&](std::size_t node, std::size_t reader) {
      const Node& call = program_.nodes[node];
      return (is_conv(call) || is_cast_of_input(program_, call)) &&
             program_.spec(call.outputs[0]).shape.numel() > 0 &&
             std::ranges::all_of(call.inputs,
                                 [&](ValueId input) { return is_same(input, node, reader); });
    };
    std::vector<Candidate> candidates;
    for (const Kept& kept : kept_results(program_, may_go)) {
      const Node& call = program_.nodes[kept.node];
      candidates.push_back({kept, work_again(call), program_.spec(call.outputs[0]).bytes()});
    }
    std::ranges::stable_sort(candidates, {}, &Candidate::work_per_byte);
    return candidates;
  }

  Node again(const Node& call, ValueId result) const {
    Node node{.op = call.op, .attrs = call.attrs, .inputs = call.inputs, .outputs = {result}};
    const std::size_t norm = norms_.find(call.inputs[kImages]);
    if (norm != kNoNode) node.inputs[kImages] = program_.nodes[norm].outputs[0];
    return node;
  }

 private:
  // Whether the value is the same for both nodes. Host work in between may change a state, unless
  // that work can wait, or the backward pass also reads the state and needs it unchanged.
  bool is_same(ValueId value, std::size_t node, std::size_t reader) const {
    if (use_.is_same_parameter_at(value, node, reader)) return true;
    if (program_.values[value].kind != ValueKind::kState) return false;
    return std::ranges::any_of(readers_[value], [&](std::size_t r) {
      const Node& n = program_.nodes[r];
      return !n.is_host() && n.phase == Phase::kBackward;
    });
  }

  // A norm without memory of its own must then be written and read.
  double work_again(const Node& call) const {
    const std::size_t norm = norms_.find(call.inputs[kImages]);
    const bool is_nowhere = norm != kNoNode && by_readers_[norm];
    return work(program_, call) + (is_nowhere ? work(program_, program_.nodes[norm]) : 0);
  }

  const Program& program_;
  MemoryUse use_;
  std::vector<std::vector<std::size_t>> readers_;
  RecomputedNorms norms_;
  std::vector<bool> by_readers_;
};

}  // namespace

std::size_t recompute_convs(Program& program) {
  const Candidates candidates(program);
  const auto again = [&](const Node& call, ValueId result) {
    return candidates.again(call, result);
  };
  double may_add = 0;
  for (const Node& node : program.nodes) may_add += kMostMoreWork * work(program, node);
  MemoryPeak peak = memory_peak(program);
  std::vector<Kept> chosen;
  for (const Candidate& candidate : candidates.cheapest_first()) {
    const ValueId result = program.nodes[candidate.kept.node].outputs[0];
    if (candidate.work > may_add || std::ranges::count(peak.blocks, result) == 0) continue;
    chosen.push_back(candidate.kept);
    MemoryPeak next = memory_peak(recomputed(program, chosen, again));
    if (next.bytes + candidate.bytes / 2 > peak.bytes) {
      chosen.pop_back();
      continue;
    }
    peak = std::move(next);
    may_add -= candidate.work;
  }
  return recompute(program, chosen, again);
}

}  // namespace mezzo::graph

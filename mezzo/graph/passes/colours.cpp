#include "mezzo/graph/passes/colours.h"

#include <algorithm>
#include <utility>

#include "mezzo/ops/all.h"

namespace mezzo::graph {
namespace {

// If an input is f64, nothing is cast, as in a region (amp/autocast.cpp).
bool can_cast_some_input(const Program& program, const Node& node) {
  bool any = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId value = node.inputs[i];
    if (value == kNoValue || !node.op->precision.may_cast(i)) continue;
    const DType dtype = program.spec(value).dtype;
    if (dtype == DType::kF64) return false;
    any = any || amp::takes_part(dtype);
  }
  return any;
}

bool user_says_follow(const amp::Policy& policy, const OpDef& op) {
  return policy.rules != nullptr && policy.rules->action_of(op) == amp::CastAction::kNone;
}

// The mark of a node that autocast leaves in the dtype of its inputs.
Mark undecided(const Node& node) {
  const amp::Policy& policy = *node.policy;
  Mark mark{Colour::kNone, policy.lower, "follows its inputs"};
  if (user_says_follow(policy, *node.op)) mark.reason = "a user's rule says follow";
  if (policy.level != amp::Level::kAuto || user_says_follow(policy, *node.op)) return mark;
  // Painting it would round the sum of all layers before it to 16 bits, in every layer.
  if (node.op == &ops::add_residual) {
    mark.reason = "keeps the dtype of the stream";
    return mark;
  }
  const PrecisionClass own = node.op->precision.of(policy.lower);
  const bool indifferent = node.op->view != nullptr || own == PrecisionClass::kFollow;
  mark.colour = indifferent ? Colour::kClear : Colour::kGray;
  return mark;
}

std::string reason_of(const amp::Policy& policy, const OpDef& op, amp::CastAction action) {
  if (policy.lower == DType::kF32) return "its module is set to f32";
  if (policy.rules != nullptr && policy.rules->action_of(op) == action) {
    return "a user's rule says so";
  }
  const PrecisionClass own = op.precision.of(policy.lower);
  if (action == amp::CastAction::kToLower && own == PrecisionClass::kLower) {
    return "it gains from 16 bits";
  }
  if (action == amp::CastAction::kToFloat32 && own == PrecisionClass::kFloat32) {
    return "it needs f32";
  }
  // A module that is set to 16 bits computes at O3, whatever the level around it.
  if (policy.level == amp::Level::kO3) return "everything is cast here";
  return concat("level ", policy.level);
}

// The dtypes of a node's outputs if it is painted; empty if it does not accept that dtype.
std::vector<DType> outputs_in(const Program& program, CastPlanner& planner, std::size_t index,
                              DType paint) {
  const Node& node = program.nodes[index];
  std::vector<DType> inputs(node.inputs.size(), DType::kF32);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const DType dtype = program.spec(node.inputs[i]).dtype;
    inputs[i] = node.op->precision.may_cast(i) && amp::takes_part(dtype) ? paint : dtype;
  }
  try {
    return planner.output_dtypes(index, inputs);
  } catch (const ArgumentError&) {
    return {};
  }
}

class Linker {
 public:
  Linker(const Program& program, CastPlanner& planner, std::vector<Mark>& marks)
      : program_(program), planner_(planner), marks_(marks), result_(program.nodes.size()) {}

  std::vector<Neighbours> run() {
    for (std::size_t i = 0; i < marks_.size(); ++i) find_decided(i);
    find_readers();
    for (std::size_t i = 0; i < marks_.size(); ++i) link(i);
    return std::move(result_);
  }

 private:
  struct Read {
    std::size_t node;
    std::size_t input;
  };

  // The outputs whose dtype is decided by the node's paint.
  void find_decided(std::size_t index) {
    decided_.resize(program_.nodes.size());
    Mark& mark = marks_[index];
    if (mark.colour == Colour::kNone) return;
    const Node& node = program_.nodes[index];
    const bool black = mark.colour == Colour::kBlack;
    const DType paint = black ? DType::kF32 : mark.lower;
    const std::vector<DType> dtypes = outputs_in(program_, planner_, index, paint);
    if (dtypes.empty() && mark.is_undecided()) {
      mark.colour = Colour::kNone;
      mark.reason = concat("does not take ", mark.lower);
    }
    for (std::size_t i = 0; i < dtypes.size(); ++i) {
      if (dtypes[i] == paint) decided_[index].push_back(node.outputs[i]);
    }
  }

  void find_readers() {
    reads_.resize(program_.values.size());
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      const Node& node = program_.nodes[i];
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.inputs[k] != kNoValue) reads_[node.inputs[k]].push_back({i, k});
      }
    }
  }

  void link(std::size_t maker) {
    Neighbours& own = result_[maker];
    own.unread = !decided_[maker].empty();
    for (const ValueId value : decided_[maker]) {
      own.returned = own.returned || std::ranges::count(program_.outputs, value) > 0;
      own.unread = own.unread && !own.returned && reads_[value].empty();
      for (const Read& read : reads_[value]) link(maker, read);
    }
  }

  void link(std::size_t maker, const Read& read) {
    const Mark& mark = marks_[read.node];
    const bool is_edge = mark.colour != Colour::kNone && mark.lower == marks_[maker].lower &&
                         program_.nodes[read.node].op->precision.may_cast(read.input);
    if (!is_edge) {
      result_[maker].read_without_edge = true;
      return;
    }
    std::vector<std::size_t>& readers = result_[maker].readers;
    // the node reads it as two of its inputs
    if (!readers.empty() && readers.back() == read.node) return;
    readers.push_back(read.node);
    result_[read.node].makers.push_back(maker);
  }

  const Program& program_;
  CastPlanner& planner_;
  std::vector<Mark>& marks_;
  std::vector<Neighbours> result_;
  std::vector<std::vector<ValueId>> decided_;  // by node
  std::vector<std::vector<Read>> reads_;       // by value
};

}  // namespace

Mark mark_of(const Program& program, const Node& node) {
  if (node.is_host() || node.policy == nullptr) return {};
  const amp::Policy& policy = *node.policy;
  const OpDef& op = *node.op;
  const amp::CastAction action = amp::action_for(policy, op);
  if (action == amp::CastAction::kRefuse) amp::refuse(policy, op);
  if (!can_cast_some_input(program, node)) {
    return {Colour::kNone, policy.lower, op.precision.reason != nullptr ? op.precision.reason : ""};
  }
  if (action == amp::CastAction::kNone) return undecided(node);
  const Colour colour = action == amp::CastAction::kToLower ? Colour::kWhite : Colour::kBlack;
  return {colour, policy.lower, reason_of(policy, op, action)};
}

std::vector<Neighbours> neighbours_of(const Program& program, CastPlanner& planner,
                                      std::vector<Mark>& marks) {
  return Linker(program, planner, marks).run();
}

}  // namespace mezzo::graph

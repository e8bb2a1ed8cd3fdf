#include <vector>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo::graph {
namespace {

using GradIn = BatchNormGradInput;

bool takes_two_gradients(const Node& node) {
  return is_call(node, ops::batch_norm_grad) && node.inputs.size() > GradIn::kY &&
         node.inputs[GradIn::kY] != kNoValue &&
         (node.inputs.size() <= GradIn::kOtherGrad || node.inputs[GradIn::kOtherGrad] == kNoValue);
}

class Joiner {
 public:
  explicit Joiner(Program& program) : program_(program), links_(program), memory_(program) {}

  std::size_t run() {
    std::vector<bool> is_gone(program_.nodes.size(), false);
    std::size_t joined = 0;
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      if (!takes_two_gradients(program_.nodes[i])) continue;
      const std::size_t sum = sum_for(i);
      if (sum == kNoNode) continue;
      join(program_.nodes[sum], program_.nodes[i]);
      is_gone[sum] = true;
      ++joined;
    }
    erase_nodes(program_, is_gone);
    return joined;
  }

 private:
  // The sum of two gradients that is made for this node alone; kNoNode if there is none, or if the
  // node could not read the two gradients itself.
  std::size_t sum_for(std::size_t norm_grad) const {
    const ValueId grad = program_.nodes[norm_grad].inputs[GradIn::kGrad];
    const std::size_t sum = links_.maker(grad, ops::add);
    if (sum == kNoNode || !links_.is_only_for(grad, norm_grad)) return kNoNode;
    for (const ValueId term : program_.nodes[sum].inputs) {
      const ValueSpec& spec = program_.spec(term);
      const bool is_like_the_sum =
          spec.shape == program_.spec(grad).shape && spec.dtype == program_.spec(grad).dtype;
      if (!is_like_the_sum || !memory_.is_same_at(term, sum, norm_grad)) return kNoNode;
    }
    return sum;
  }

  static void join(const Node& sum, Node& norm_grad) {
    const ValueId before = norm_grad.inputs[GradIn::kGrad];
    norm_grad.inputs.resize(GradIn::kOtherGrad + 1, kNoValue);
    norm_grad.inputs[GradIn::kGrad] = sum.inputs[0];
    norm_grad.inputs[GradIn::kOtherGrad] = sum.inputs[1];
    for (ValueId& value : norm_grad.over) {
      if (value == before) value = sum.inputs[0];
    }
  }

  Program& program_;
  Links links_;
  MemoryUse memory_;
};

}  // namespace

std::size_t join_gradients(Program& program) { return Joiner(program).run(); }

}  // namespace mezzo::graph

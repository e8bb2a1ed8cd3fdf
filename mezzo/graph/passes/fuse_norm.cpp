#include <algorithm>
#include <utility>
#include <vector>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo::graph {
namespace {

using FusedIn = BatchNormInput;
using GradIn = BatchNormGradInput;

bool has_relu(const Node& norm) { return norm.attrs.as<BatchNormAttrs>().relu; }

void set_relu(Node& norm) {
  auto attrs = norm.attrs.as<BatchNormAttrs>();
  attrs.relu = true;
  norm.attrs = attrs;
}

// Common state of the forward and the backward direction of the pass.
class NormFuser {
 public:
  explicit NormFuser(Program& program)
      : program_(program),
        links_(program),
        memory_(program),
        is_gone_(program.nodes.size(), false) {}

 protected:
  Node& node(std::size_t i) { return program_.nodes[i]; }
  const Node& node(std::size_t i) const { return program_.nodes[i]; }

  std::size_t finish() {
    erase_nodes(program_, is_gone_);
    return changes_;
  }

  Program& program_;
  Links links_;
  MemoryUse memory_;
  std::vector<bool> is_gone_;
  std::size_t changes_ = 0;
};

// Fuses batch_norm, relu and batch_norm, add, relu.
class ForwardFuser : public NormFuser {
 public:
  using NormFuser::NormFuser;

  std::size_t run() {
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      if (is_call(node(i), ops::relu) && (fuse_relu(i) || fuse_add_relu(i))) ++changes_;
    }
    return finish();
  }

 private:
  // The norm without ReLU that makes the value for this reader alone; kNoNode if there is none.
  std::size_t norm_for(ValueId value, std::size_t reader) const {
    const std::size_t norm = links_.maker(value, ops::batch_norm);
    if (norm == kNoNode || has_relu(node(norm)) || node(norm).outputs[0] != value) return kNoNode;
    return links_.is_only_for(value, reader) ? norm : kNoNode;
  }

  bool fuse_relu(std::size_t relu) {
    const std::size_t norm = norm_for(node(relu).inputs[0], relu);
    if (norm == kNoNode) return false;
    join_calls(program_, node(norm).outputs[0], node(relu).outputs[0]);
    take_over(norm, relu);
    return true;
  }

  bool fuse_add_relu(std::size_t relu) {
    const std::size_t add = links_.maker(node(relu).inputs[0], ops::add);
    if (add == kNoNode || !links_.is_only_for(node(add).outputs[0], relu)) return false;
    return fuse_add_relu(relu, add, 0) || fuse_add_relu(relu, add, 1);
  }

  // Tries operand `side` of the sum as the norm's result, and the other one as the residual.
  bool fuse_add_relu(std::size_t relu, std::size_t add, std::size_t side) {
    const std::size_t norm = norm_for(node(add).inputs[side], add);
    if (norm == kNoNode) return false;
    const ValueId residual = node(add).inputs[1 - side];
    // The fused kernel runs at the place of the norm, because others may read its statistics before
    // the sum.
    const std::size_t maker = links_.maker(residual);
    const bool is_there =
        (maker == kNoNode || maker < norm) && memory_.is_same_at(residual, norm, add);
    const ValueSpec& y = program_.spec(node(norm).outputs[0]);
    // The sum has the layout of its first operand, and the norm's result that of its kernel.
    const bool fits = program_.spec(residual).shape == y.shape &&
                      same_layout(y, program_.spec(node(relu).outputs[0]));
    if (!is_there || !fits) return false;
    node(norm).op = &ops::batch_norm_add_relu;
    node(norm).inputs.resize(FusedIn::kResidual + 1, kNoValue);
    node(norm).inputs[FusedIn::kResidual] = residual;
    is_gone_[add] = true;
    join_calls(program_, node(norm).outputs[0], node(add).outputs[0]);
    join_calls(program_, node(add).outputs[0], node(relu).outputs[0]);
    take_over(norm, relu);
    return true;
  }

  void take_over(std::size_t norm, std::size_t relu) {
    set_relu(node(norm));
    node(norm).outputs[0] = node(relu).outputs[0];
    node(norm).path = node(relu).path;
    is_gone_[relu] = true;
  }
};

// Fuses relu_grad and batch_norm_grad, for norms with a ReLU.
class BackwardFuser : public NormFuser {
 public:
  using NormFuser::NormFuser;

  std::size_t run() {
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      if (is_call(node(i), ops::relu_grad) && fuse(i)) ++changes_;
    }
    return finish();
  }

 private:
  bool fuse(std::size_t relu_grad) {
    const ValueId y = node(relu_grad).inputs[1];
    const ValueId masked = node(relu_grad).outputs[0];
    if (memory_.is_returned(masked) || memory_.may_change(masked)) return false;
    for (const OpDef* op : {&ops::batch_norm, &ops::batch_norm_add_relu}) {
      const std::size_t norm = links_.maker(y, *op);
      if (norm == kNoNode || !has_relu(node(norm))) continue;
      for (const std::size_t grad : links_.readers(masked)) {
        if (!is_gradient_of(norm, grad, masked)) continue;
        return op == &ops::batch_norm ? fuse_plain(norm, relu_grad, grad)
                                      : fuse_sum(relu_grad, grad);
      }
    }
    return false;
  }

  // True if node `i` computes the gradient of that norm, up to the ReLU, from `grad`.
  bool is_gradient_of(std::size_t norm, std::size_t i, ValueId grad) const {
    const Node& forward = node(norm);
    if (!is_call(node(i), ops::batch_norm_grad) || is_gone_[i]) return false;
    BatchNormAttrs attrs = node(i).attrs.as<BatchNormAttrs>();
    if (attrs.relu) return false;
    attrs.relu = true;
    const bool trains = attrs.training;
    std::vector<ValueId> inputs{
        grad,
        forward.inputs[FusedIn::kX],
        forward.inputs[FusedIn::kWeight],
        forward.inputs[FusedIn::kBias],
        trains ? forward.outputs[1] : forward.inputs[FusedIn::kRunningMean],
        trains ? forward.outputs[2] : forward.inputs[FusedIn::kRunningVar],
    };
    inputs.resize(node(i).inputs.size(), kNoValue);
    return Attrs(attrs) == forward.attrs && node(i).inputs == inputs;
  }

  // Without a residual the kernel finds the signs by recomputing y, so the inputs of y must not
  // have changed.
  bool fuse_plain(std::size_t norm, std::size_t relu_grad, std::size_t norm_grad) {
    const ValueId grad = node(relu_grad).inputs[0];
    const bool moved_on = is_update_between(program_, norm, norm_grad);
    if (moved_on || !links_.is_only_for(node(relu_grad).outputs[0], norm_grad)) return false;
    if (!memory_.is_same_at(grad, relu_grad, norm_grad)) return false;
    set_relu(node(norm_grad));
    node(norm_grad).inputs[GradIn::kGrad] = grad;
    node(norm_grad).over = {grad, kNoValue, kNoValue, kNoValue};
    is_gone_[relu_grad] = true;
    return true;
  }

  // With a residual the masked gradient is a result, for the residual's own gradient. Others may
  // read it before the norm's gradient runs, so the kernel runs at the place of the ReLU's
  // gradient.
  bool fuse_sum(std::size_t relu_grad, std::size_t norm_grad) {
    const ValueId grad = node(relu_grad).inputs[0];
    const ValueId x = node(norm_grad).inputs[GradIn::kX];
    const bool same = std::ranges::all_of(node(norm_grad).inputs, [&](ValueId input) {
      return input == kNoValue || memory_.is_same_at(input, relu_grad, norm_grad);
    });
    if (!same) return false;
    Node fused = std::move(node(norm_grad));
    set_relu(fused);
    fused.inputs.resize(GradIn::kY + 1, kNoValue);
    fused.inputs[GradIn::kGrad] = grad;
    fused.inputs[GradIn::kY] = node(relu_grad).inputs[1];
    fused.outputs.push_back(node(relu_grad).outputs[0]);
    fused.over = {x, kNoValue, kNoValue, grad};
    node(relu_grad) = std::move(fused);
    is_gone_[norm_grad] = true;
    return true;
  }
};

}  // namespace

std::size_t fuse_norm(Program& program) {
  const std::size_t forward = ForwardFuser(program).run();
  return forward + BackwardFuser(program).run();
}

}  // namespace mezzo::graph

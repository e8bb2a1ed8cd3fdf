#include <algorithm>
#include <utility>
#include <vector>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/all.h"

namespace mezzo::graph {
namespace {

constexpr std::size_t kBias = 2;  // index among the inputs of linear and of matmul

class BiasFuser {
 public:
  explicit BiasFuser(Program& program)
      : program_(program),
        links_(program),
        memory_(program),
        is_gone_(program.nodes.size(), false) {}

  std::size_t run() {
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      if (!is_call(program_.nodes[i], ops::add)) continue;
      if (!fuse(i, 0)) fuse(i, 1);
    }
    return erase_nodes(program_, is_gone_);
  }

 private:
  // Tries operand `side` of the sum as the product, and the other one as the bias.
  bool fuse(std::size_t add, std::size_t side) {
    Node& sum = program_.nodes[add];
    const ValueId between = sum.inputs[side];
    const ValueId bias = sum.inputs[1 - side];
    const std::size_t product = product_without_bias(between);
    if (product == kNoNode || !links_.is_only_for(between, add)) return false;
    if (!is_bias(bias, between) || !can_wait(product, add)) return false;
    Node fused = program_.nodes[product];
    fused.inputs.resize(kBias + 1, kNoValue);
    fused.inputs[kBias] = bias;
    fused.outputs = std::move(sum.outputs);
    join_calls(program_, between, fused.outputs[0]);
    fused.path = sum.path;
    sum = std::move(fused);
    is_gone_[product] = true;
    return true;
  }

  std::size_t product_without_bias(ValueId value) const {
    for (const OpDef* op : {&ops::linear, &ops::matmul}) {
      const std::size_t maker = links_.maker(value, *op);
      if (maker == kNoNode) continue;
      const std::vector<ValueId>& inputs = program_.nodes[maker].inputs;
      return inputs.size() <= kBias || inputs[kBias] == kNoValue ? maker : kNoNode;
    }
    return kNoNode;
  }

  // The bias has one value per column of the product.
  bool is_bias(ValueId value, ValueId product) const {
    const ValueSpec& spec = program_.spec(value);
    return is_floating(spec.dtype) && spec.shape == Shape{program_.spec(product).shape.back()};
  }

  // True if the product can be computed at the place of the sum, before which the bias may not
  // exist.
  bool can_wait(std::size_t product, std::size_t add) const {
    return std::ranges::all_of(program_.nodes[product].inputs, [&](ValueId input) {
      return memory_.is_same_at(input, product, add);
    });
  }

  Program& program_;
  Links links_;
  MemoryUse memory_;
  std::vector<bool> is_gone_;
};

}  // namespace

std::size_t fuse_bias(Program& program) { return BiasFuser(program).run(); }

}  // namespace mezzo::graph

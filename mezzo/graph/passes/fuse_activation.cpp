#include <optional>
#include <vector>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/activated_attrs.h"
#include "mezzo/ops/all.h"

namespace mezzo::graph {
namespace {

std::optional<Activation> activation_of(const Node& node) {
  if (is_call(node, ops::relu)) return Activation::kRelu;
  if (!is_call(node, ops::gelu)) return std::nullopt;
  const bool exact = node.attrs.as<GeluAttrs>().form == GeluForm::kExact;
  return exact ? Activation::kGelu : Activation::kGeluTanh;
}

// Replaces a product by one with an activation; returns false if the node is not a product.
bool activate(Node& product, Activation activation) {
  if (is_call(product, ops::linear)) {
    product.op = &ops::linear_activation;
    product.attrs = LinearActivationAttrs{activation};
  } else if (is_call(product, ops::matmul)) {
    product.op = &ops::matmul_activation;
    product.attrs = MatmulActivationAttrs{product.attrs.as<MatmulAttrs>(), activation};
  } else if (is_call(product, ops::conv2d)) {
    product.op = &ops::conv2d_activation;
    product.attrs = Conv2dActivationAttrs{product.attrs.as<Conv2dAttrs>(), activation};
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::size_t fuse_activation(Program& program) {
  const Links links(program);
  std::vector<bool> is_gone(program.nodes.size(), false);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const std::optional<Activation> activation = activation_of(program.nodes[i]);
    if (!activation.has_value()) continue;
    const ValueId between = program.nodes[i].inputs[0];
    const std::size_t maker = links.maker(between);
    // GELU's gradient reads its input, which is then a second reader.
    if (maker == kNoNode || !links.is_only_for(between, i)) continue;
    Node& product = program.nodes[maker];
    if (!activate(product, *activation)) continue;
    product.outputs = program.nodes[i].outputs;
    join_calls(program, between, product.outputs[0]);
    product.path = program.nodes[i].path;
    is_gone[i] = true;
  }
  return erase_nodes(program, is_gone);
}

}  // namespace mezzo::graph

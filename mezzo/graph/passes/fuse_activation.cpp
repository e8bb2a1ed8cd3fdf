#include <algorithm>
#include <optional>
#include <vector>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/activated_attrs.h"
#include "mezzo/ops/registry.h"

namespace mezzo::graph {
namespace {

std::optional<Activation> activation_of(const Node& node) {
  static const OpDef* const kRelu = find_op("relu");
  static const OpDef* const kGelu = find_op("gelu");
  if (is_call(node, kRelu)) return Activation::kRelu;
  if (!is_call(node, kGelu)) return std::nullopt;
  const bool exact = node.attrs.as<GeluAttrs>().form == GeluForm::kExact;
  return exact ? Activation::kGelu : Activation::kGeluTanh;
}

// Makes the product one with an activation; false if it is none.
bool activate(Node& product, Activation activation) {
  static const OpDef* const kLinear = find_op("linear");
  static const OpDef* const kMatmul = find_op("matmul");
  static const OpDef* const kConv2d = find_op("conv2d");
  if (is_call(product, kLinear)) {
    product.op = find_op("linear_activation");
    product.attrs = LinearActivationAttrs{activation};
  } else if (is_call(product, kMatmul)) {
    product.op = find_op("matmul_activation");
    product.attrs = MatmulActivationAttrs{product.attrs.as<MatmulAttrs>(), activation};
  } else if (is_call(product, kConv2d)) {
    product.op = find_op("conv2d_activation");
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
    // GELU's gradient reads its input: then there is a second reader.
    if (maker == kNoNode || !links.is_only_for(between, i)) continue;
    Node& product = program.nodes[maker];
    if (!activate(product, *activation)) continue;
    product.outputs = program.nodes[i].outputs;
    product.path = program.nodes[i].path;
    is_gone[i] = true;
  }
  erase_nodes(program, is_gone);
  return static_cast<std::size_t>(std::ranges::count(is_gone, true));
}

}  // namespace mezzo::graph

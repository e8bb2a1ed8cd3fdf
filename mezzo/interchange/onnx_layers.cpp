#include "mezzo/interchange/onnx_layers.h"

#include <cmath>
#include <limits>
#include <vector>

#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/group_norm_attrs.h"
#include "mezzo/ops/layer_norm_attrs.h"
#include "mezzo/ops/pool_attrs.h"
#include "mezzo/ops/upsample_attrs.h"

namespace mezzo::interchange::layers {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes both(Size2d size) { return {size.h, size.w}; }
// ONNX lists the begins of all axes before their ends.
Sizes begins_and_ends(const Sides& sides) {
  return {sides.top, sides.left, sides.bottom, sides.right};
}

void set_window(OnnxNode& node, const Window2d& window) {
  node.set("kernel_shape", both(window.kernel))
      .set("strides", both(window.stride))
      .set("pads", begins_and_ends(window.padding));
}

}  // namespace

std::string conv2d(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto& attrs = call.attrs.as<Conv2dAttrs>();
  const Shape& weight = call.inputs[1].shape();  // [o, c / groups, kh, kw]
  std::vector<std::string> inputs{graph.input(0), graph.input(1)};
  if (call.inputs[2].defined()) inputs.push_back(graph.input(2));
  OnnxNode node = graph.add(type, inputs);
  set_window(node, attrs.window({weight[2], weight[3]}));
  return node.set("dilations", both(attrs.dilation)).set("group", attrs.groups).result();
}

std::string conv_transpose2d(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto& attrs = call.attrs.as<ConvTranspose2dAttrs>();
  const Shape& weight = call.inputs[1].shape();  // [c, o / groups, kh, kw]
  std::vector<std::string> inputs{graph.input(0), graph.input(1)};
  if (call.inputs[2].defined()) inputs.push_back(graph.input(2));
  OnnxNode node = graph.add(type, inputs);
  set_window(node, attrs.conv.window({weight[2], weight[3]}));
  return node.set("dilations", both(attrs.conv.dilation))
      .set("group", attrs.conv.groups)
      .set("output_padding", both(attrs.output_padding))
      .result();
}

std::string max_pool2d(OnnxGraph& graph, const TracedCall& call, const char* type) {
  OnnxNode node = graph.add(type, {graph.input(0)});
  set_window(node, call.attrs.as<Pool2dAttrs>().window());
  return node.result();
}

std::string avg_pool2d(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto& attrs = call.attrs.as<Pool2dAttrs>();
  const Shape& x = call.inputs[0].shape();
  const bool is_fixed = !graph.is_open(0, 2) && !graph.is_open(0, 3);
  if (is_fixed && attrs.kernel == Size2d(x[2], x[3]) && attrs.padding == Sides{}) {
    return graph.add("GlobalAveragePool", {graph.input(0)}).result();
  }
  OnnxNode node = graph.add(type, {graph.input(0)});
  set_window(node, attrs.window());
  return node.set("count_include_pad", std::int64_t{attrs.count_include_pad}).result();
}

// Adds a residual if there is one, and ReLU last.
std::string batch_norm(OnnxGraph& graph, const TracedCall& call, const char* type) {
  using In = BatchNormInput;
  const auto& attrs = call.attrs.as<BatchNormAttrs>();
  if (attrs.training) {
    graph.refuse(
        "it normalises by the statistics of the batch, whose size is open in ONNX. Give it ",
        "running statistics, and training = false");
  }
  const Shape channels{call.inputs[In::kX].shape()[1]};
  const auto given = [&](std::size_t i, const char* role, float otherwise) {
    return call.inputs[i].defined() ? graph.input(i) : graph.constant(role, channels, otherwise);
  };
  std::string y = graph
                      .add(type, {graph.input(In::kX), given(In::kWeight, "scale", 1),
                                  given(In::kBias, "shift", 0), graph.input(In::kRunningMean),
                                  graph.input(In::kRunningVar)})
                      .set("epsilon", static_cast<float>(attrs.eps))
                      .result();
  if (call.inputs.size() > In::kResidual) {
    y = graph.add("Add", {y, graph.input(In::kResidual)}).result();
  }
  return attrs.relu ? graph.add("Relu", {y}).result() : y;
}

namespace {

// Reshapes [c] to [c, 1, 1] for images.
std::string per_channel(OnnxGraph& graph, const TracedCall& call, std::size_t i) {
  if (call.inputs[GroupNormInput::kX].rank() == 2) return graph.input(i);
  return graph.add("Unsqueeze", {graph.input(i), graph.constant("axes", Sizes{1, 2})}).result();
}

}  // namespace

// This opset only has an operator for instances, so each group becomes an instance. Its scale and
// shift are per instance; those per channel follow.
std::string group_norm(OnnxGraph& graph, const TracedCall& call, const char* type) {
  using In = GroupNormInput;
  const auto& attrs = call.attrs.as<GroupNormAttrs>();
  const Shape& x = call.inputs[In::kX].shape();
  const Shape groups{attrs.groups};
  for (std::size_t axis = 1; axis < x.rank(); ++axis) graph.check_closed(In::kX, axis);
  const std::string rows =
      graph
          .add("Reshape",
               {graph.input(In::kX), graph.constant("shape", Sizes{0, attrs.groups, -1})})
          .result();
  const std::string normal =
      graph
          .add(type, {rows, graph.constant("scale", groups, 1), graph.constant("shift", groups, 0)})
          .set("epsilon", static_cast<float>(attrs.eps))
          .result();
  Sizes sizes(x.begin(), x.end());
  sizes[0] = 0;  // 0 keeps the batch
  std::string y = graph.add("Reshape", {normal, graph.constant("shape", sizes)}).result();
  if (call.inputs[In::kWeight].defined()) {
    y = graph.add("Mul", {y, per_channel(graph, call, In::kWeight)}).result();
  }
  if (call.inputs[In::kBias].defined()) {
    y = graph.add("Add", {y, per_channel(graph, call, In::kBias)}).result();
  }
  return y;
}

std::string layer_norm(OnnxGraph& graph, const TracedCall& call, const char* type) {
  using In = LayerNormInput;
  const auto& attrs = call.attrs.as<LayerNormAttrs>();
  const Shape& x = call.inputs[In::kX].shape();
  const Shape shape = normalized_shape(x, attrs);
  for (std::size_t i = 0; i < shape.rank(); ++i) graph.check_closed(In::kX, x.rank() - 1 - i);
  const std::string scale = call.inputs[In::kWeight].defined() ? graph.input(In::kWeight)
                                                               : graph.constant("scale", shape, 1);
  std::vector<std::string> inputs{graph.input(In::kX), scale};
  if (call.inputs[In::kBias].defined()) inputs.push_back(graph.input(In::kBias));
  return graph.add(type, inputs)
      .set("axis", -attrs.axes)
      .set("epsilon", static_cast<float>(attrs.eps))
      .result();
}

namespace {

// Never less than the quotient: ONNX multiplies the size by this f32 scale and rounds down. Rounded
// to the nearest f32, the scale from 7 pixels to 31 would give 30.
float scale_between(std::int64_t in, std::int64_t out) {
  const auto scale = static_cast<float>(static_cast<double>(out) / static_cast<double>(in));
  const bool falls_short = double{scale} * static_cast<double>(in) < static_cast<double>(out);
  return falls_short ? std::nextafter(scale, std::numeric_limits<float>::infinity()) : scale;
}

}  // namespace

// Uses scales, since sizes would have to include that of the batch.
std::string upsample_bilinear(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto& attrs = call.attrs.as<UpsampleBilinearAttrs>();
  const Shape& x = call.inputs[0].shape();
  for (const std::size_t axis : {2, 3}) graph.check_closed(0, axis);
  const float scales[] = {1, 1, scale_between(x[2], attrs.size.h),
                          scale_between(x[3], attrs.size.w)};
  return graph.add(type, {graph.input(0), "", graph.constant("scales", scales)})
      .set("mode", "linear")
      .set("coordinate_transformation_mode", attrs.align_corners ? "align_corners" : "half_pixel")
      .result();
}

std::string upsample(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const Size2d scale = call.attrs.as<UpsampleAttrs>().scale;
  const float scales[] = {1, 1, static_cast<float>(scale.h), static_cast<float>(scale.w)};
  return graph.add(type, {graph.input(0), "", graph.constant("scales", scales)})
      .set("mode", "nearest")
      .set("coordinate_transformation_mode", "asymmetric")
      .set("nearest_mode", "floor")
      .result();
}

}  // namespace mezzo::interchange::layers

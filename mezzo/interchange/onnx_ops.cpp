#include "mezzo/interchange/onnx_ops.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "mezzo/interchange/onnx_attention.h"
#include "mezzo/interchange/onnx_choices.h"
#include "mezzo/interchange/onnx_layers.h"
#include "mezzo/interchange/onnx_sequences.h"
#include "mezzo/ops/affine_attrs.h"
#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/matmul_attrs.h"
#include "mezzo/ops/piecewise_attrs.h"
#include "mezzo/ops/pointwise_attrs.h"
#include "mezzo/ops/reduce_attrs.h"
#include "mezzo/ops/shape_attrs.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo::interchange {
namespace {

using Sizes = std::vector<std::int64_t>;

// Gemm takes x [n, in]; with more axes x is a stack of matrices, for MatMul.
std::string linear(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const bool has_bias = call.inputs[2].defined();
  if (call.inputs[0].rank() == 2) {
    std::vector<std::string> inputs{graph.input(0), graph.input(1)};
    if (has_bias) inputs.push_back(graph.input(2));
    return graph.add(type, inputs).set("transB", std::int64_t{1}).result();
  }
  const std::string weight =
      graph.add("Transpose", {graph.input(1)}).set("perm", Sizes{1, 0}).result();
  const std::string y = graph.add("MatMul", {graph.input(0), weight}).result();
  return has_bias ? graph.add("Add", {y, graph.input(2)}).result() : y;
}

std::string along_axis(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const std::int64_t axis = call.attrs.as<AxisAttrs>().axis;
  return graph.add(type, {graph.input(0)}).set("axis", axis).result();
}

// A size of 0 in ONNX copies that of the same axis of the input, and a single -1 takes the rest. So
// the batch and the length of a sequence may be any axis, and one of them may be joined with
// another.
std::string reshape(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const Shape& from = call.inputs[0].shape();
  const Shape& to = call.outputs[0].shape();
  const auto is_kept = [&](std::size_t axis) {
    return axis < from.rank() && graph.has_size_of_result(0, axis, axis);
  };
  if (to.rank() == 2 && is_kept(0)) {
    return graph.add("Flatten", {graph.input(0)}).set("axis", std::int64_t{1}).result();
  }
  Sizes sizes(to.begin(), to.end());
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (graph.is_open_in_result(axis)) sizes[axis] = is_kept(axis) ? 0 : -1;
  }
  if (std::ranges::count(sizes, -1) > 1) {
    graph.refuse("from ", from, " to ", to, " gives several axes a size that depends on that of ",
                 "the batch or sequence, which is open in ONNX. Do it in several steps");
  }
  return graph.add(type, {graph.input(0), graph.constant("shape", sizes)}).result();
}

bool is_zero(const Tensor& tensor) {
  const auto values = tensor.to_vector<float>();
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

// Zeros that the forward pass concatenates to a tensor are padding. Their number depends on the
// batch, which is open, so they cannot be a constant.
std::string cat(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto axis = static_cast<std::size_t>(call.attrs.as<CatAttrs>().axis);
  std::vector<std::string> parts;
  std::int64_t before = 0;
  std::int64_t after = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& part = call.inputs[i];
    if (!graph.is_open(i, axis) && !graph.is_known(part) && is_zero(part)) {
      (parts.empty() ? before : after) += part.shape()[axis];
    } else {
      if (after > 0) graph.refuse("zeros between its inputs. Put them at the ends");
      parts.push_back(graph.input(i));
    }
  }
  if (parts.empty()) graph.refuse("all of its inputs are zeros. Register one with add_buffer()");
  std::string joined = parts[0];
  if (parts.size() > 1) {
    joined = graph.add(type, parts).set("axis", static_cast<std::int64_t>(axis)).result();
  }
  if (before + after == 0) return joined;
  const std::size_t rank = call.outputs[0].rank();
  Sizes pads(2 * rank, 0);
  pads[axis] = before;
  pads[rank + axis] = after;
  return graph.add("Pad", {joined, graph.constant("pads", pads)}).result();
}

// Adds an operator whose second input is a constant.
std::string with_number(OnnxGraph& graph, const char* type, const std::string& x, double number) {
  const std::string value = graph.constant("number", Shape{}, static_cast<float>(number));
  return graph.add(type, {x, value}).result();
}

std::string affine(OnnxGraph& graph, const TracedCall& call, const char* /*type*/) {
  const auto& attrs = call.attrs.as<AffineAttrs>();
  const std::string x = graph.input(0);
  const std::string scaled = attrs.scale != 1 ? with_number(graph, "Mul", x, attrs.scale) : x;
  if (attrs.shift != 0) return with_number(graph, "Add", scaled, attrs.shift);
  return attrs.scale != 1 ? scaled : graph.add("Identity", {x}).result();
}

std::string div_number(OnnxGraph& graph, const TracedCall& call, const char* type) {
  return with_number(graph, type, graph.input(0), call.attrs.as<DivNumberAttrs>().divisor);
}

std::string pow(OnnxGraph& graph, const TracedCall& call, const char* type) {
  return with_number(graph, type, graph.input(0), call.attrs.as<PowAttrs>().exponent);
}

// This opset has no gelu operator, so this writes x / 2 * (1 + erf(x / sqrt(2))), or the form with
// tanh.
std::string gelu(OnnxGraph& graph, const TracedCall& call, const char* /*type*/) {
  const std::string x = graph.input(0);
  std::string inner;
  if (call.attrs.as<GeluAttrs>().form == GeluForm::kExact) {
    inner = graph.add("Erf", {with_number(graph, "Div", x, std::sqrt(2.0))}).result();
  } else {
    const std::string cube = with_number(graph, "Pow", x, 3);
    const std::string sum =
        graph.add("Add", {x, with_number(graph, "Mul", cube, kGeluCubic)}).result();
    inner = graph.add("Tanh", {with_number(graph, "Mul", sum, kGeluScale)}).result();
  }
  const std::string factor = with_number(graph, "Add", inner, 1);
  return with_number(graph, "Mul", graph.add("Mul", {x, factor}).result(), 0.5);
}

// As in mezzo, fractions are truncated, and anything other than 0 is true.
std::string cast(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const DType dtype = call.outputs[0].dtype();
  const auto to = onnx_type(dtype);
  if (!to.has_value()) {
    graph.refuse("to ", dtype, ": tensors of the file are f32, i64 or bool. Cast to one of these");
  }
  return graph.add(type, {graph.input(0)}).set("to", static_cast<std::int64_t>(*to)).result();
}

std::string silu(OnnxGraph& graph, const TracedCall& /*call*/, const char* /*type*/) {
  const std::string x = graph.input(0);
  return graph.add("Mul", {x, graph.add("Sigmoid", {x}).result()}).result();
}

std::string leaky_relu(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const double slope = call.attrs.as<LeakyReluAttrs>().negative_slope;
  return graph.add(type, {graph.input(0)}).set("alpha", static_cast<float>(slope)).result();
}

std::string clamp(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const ClampAttrs bounds = bounds_in(call.inputs[0].dtype(), call.attrs.as<ClampAttrs>());
  const std::string min = graph.constant("min", Shape{}, static_cast<float>(bounds.min));
  const std::string max = graph.constant("max", Shape{}, static_cast<float>(bounds.max));
  return graph.add(type, {graph.input(0), min, max}).result();
}

// Transposes the last two axes of operands where the attributes say so.
std::string matmul(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto& attrs = call.attrs.as<MatmulAttrs>();
  const auto operand = [&](std::size_t i, bool transposed) {
    if (!transposed) return graph.input(i);
    const std::size_t rank = call.inputs[i].rank();
    Sizes order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[rank - 1], order[rank - 2]);
    return graph.add("Transpose", {graph.input(i)}).set("perm", order).result();
  };
  const std::string a = operand(0, attrs.transpose_a);
  const std::string y = graph.add(type, {a, operand(1, attrs.transpose_b)}).result();
  const bool has_bias = call.inputs.size() > 2 && call.inputs[2].defined();
  return has_bias ? graph.add("Add", {y, graph.input(2)}).result() : y;
}

std::string permute(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const Shape& axes = call.attrs.as<ShapeAttrs>().shape;
  return graph.add(type, {graph.input(0)}).set("perm", Sizes(axes.begin(), axes.end())).result();
}

std::int64_t end_of(const SliceAttrs& slice) {
  return slice.count > 0 ? slice.start + (slice.count - 1) * slice.step + 1 : slice.start;
}

// Starts and ends may be counted from the end of an open sequence.
std::string slice(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto& attrs = call.attrs.as<SliceAttrs>();
  const auto& other = graph.attrs_for_other_length().as<SliceAttrs>();
  graph.check_not_batch(0, static_cast<std::size_t>(attrs.axis));
  if (other.axis != attrs.axis || other.step != attrs.step) {
    graph.refuse("its axis or step depends on the length of the sequence, which is open");
  }
  return graph
      .add(type,
           {graph.input(0), graph.position("starts", attrs.start, other.start),
            graph.position("ends", end_of(attrs), end_of(other)),
            graph.constant("axes", Sizes{attrs.axis}), graph.constant("steps", Sizes{attrs.step})})
      .result();
}

// A size of 1 keeps the existing one, so that the batch keeps its own.
std::string expand(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const Shape& from = call.inputs[0].shape();
  const Shape& to = call.outputs[0].shape();
  const std::size_t added = to.rank() - from.rank();
  Sizes sizes(to.begin(), to.end());
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (!graph.is_open_in_result(axis)) continue;
    if (axis < added || !graph.has_size_of_result(0, axis - added, axis)) {
      graph.refuse("from ", from, " to ", to, " makes as many as the batch has, whose size is ",
                   "open in ONNX. Leave it to broadcasting");
    }
    sizes[axis] = 1;
  }
  return graph.add(type, {graph.input(0), graph.constant("shape", sizes)}).result();
}

std::string reduce(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto& attrs = call.attrs.as<ReduceAttrs>();
  for (const std::int64_t axis : attrs.axes) {
    graph.check_not_batch(0, static_cast<std::size_t>(axis));
  }
  const Sizes axes(attrs.axes.begin(), attrs.axes.end());
  std::vector<std::string> inputs{comparable(graph, call, 0)};
  // In this opset the axes are an input of ReduceSum and an attribute of the other reductions.
  const bool is_sum = std::string_view(type) == "ReduceSum";
  if (is_sum) inputs.push_back(graph.constant("axes", axes));
  OnnxNode node = graph.add(type, inputs);
  if (!is_sum) node.set("axes", axes);
  const std::string y = node.set("keepdims", std::int64_t{attrs.keepdim}).result();
  if (call.outputs[0].dtype() != DType::kBool) return y;
  return graph.add("Cast", {y}).set("to", std::int64_t{onnx::TensorProto::BOOL}).result();
}

// Passes the inputs on as they are, without attributes.
std::string plain(OnnxGraph& graph, const TracedCall& call, const char* type) {
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) inputs.push_back(graph.input(i));
  return graph.add(type, inputs).result();
}

// For operations that only affect memory, which ONNX leaves to the program that runs the graph.
std::string same(OnnxGraph& graph, const TracedCall& /*call*/, const char* /*type*/) {
  return graph.input(0);
}

constexpr Translation kTranslations[] = {
    {"abs", "Abs", plain},
    {"add", "Add", plain},
    {"add_residual", "Add", plain},
    {"affine", nullptr, affine},
    {"argsort", "TopK", sequences::argsort},
    {"attention", nullptr, attention},
    {"avg_pool2d", "AveragePool", layers::avg_pool2d},
    {"batch_norm", "BatchNormalization", layers::batch_norm},
    {"batch_norm_add_relu", "BatchNormalization", layers::batch_norm},
    {"cast", "Cast", cast},
    {"cat", "Concat", cat},
    {"clamp", "Clip", clamp},
    {"compare", nullptr, compare},
    {"compare_number", nullptr, compare_number},
    {"conv2d", "Conv", layers::conv2d},
    {"conv_transpose2d", "ConvTranspose", layers::conv_transpose2d},
    {"cos", "Cos", plain},
    {"cumsum", "CumSum", sequences::cumsum},
    {"div", "Div", plain},
    {"div_number", "Div", div_number},
    {"embedding", "Gather", plain},
    {"erf", "Erf", plain},
    {"exp", "Exp", plain},
    {"expand", "Expand", expand, Varies::kWithSizes},
    {"gather", "GatherElements", sequences::gather},
    {"gelu", nullptr, gelu},
    {"group_norm", "InstanceNormalization", layers::group_norm},
    {"layer_norm", "LayerNormalization", layers::layer_norm},
    {"leaky_relu", "LeakyRelu", leaky_relu},
    {"linear", "Gemm", linear},
    {"log", "Log", plain},
    {"log1p", "Log", sequences::log1p},
    {"log_softmax", "LogSoftmax", along_axis},
    {"masked_fill", "Where", masked_fill},
    {"matmul", "MatMul", matmul},
    {"max", "ReduceMax", reduce},
    {"max_pool2d", "MaxPool", layers::max_pool2d},
    {"maximum", "Max", plain},
    {"mean", "ReduceMean", reduce},
    {"minimum", "Min", plain},
    {"mul", "Mul", plain},
    {"norm", "ReduceL2", reduce},
    {"permute", "Transpose", permute},
    {"pow", "Pow", pow},
    {"relu", "Relu", plain},
    {"reshape", "Reshape", reshape, Varies::kWithSizes},
    {"rms_norm", nullptr, sequences::rms_norm},
    {"rope", nullptr, sequences::rope},
    {"rsqrt", "Reciprocal", sequences::rsqrt},
    {"scatter_add", "ScatterElements", sequences::scatter_add},
    {"sigmoid", "Sigmoid", plain},
    {"silu", nullptr, silu},
    {"sin", "Sin", plain},
    {"slice", "Slice", slice, Varies::kWithLength},
    {"softmax", "Softmax", along_axis},
    {"softplus", "Softplus", sequences::softplus},
    {"sqrt", "Sqrt", plain},
    {"sub", "Sub", plain},
    {"sum", "ReduceSum", reduce},
    {"tanh", "Tanh", plain},
    {"to_format", nullptr, same},
    {"tril", "Trilu", sequences::tril},
    {"triu", "Trilu", sequences::triu},
    {"upsample_bilinear2d", "Resize", layers::upsample_bilinear},
    {"upsample_nearest2d", "Resize", layers::upsample},
    {"where", "Where", plain},
};

}  // namespace

const Translation* find_translation(std::string_view op) {
  const auto* row = std::ranges::find(kTranslations, op, &Translation::op);
  return row == std::end(kTranslations) ? nullptr : row;
}

std::string translated_ops() {
  std::string text;
  for (const Translation& row : kTranslations) text += concat(text.empty() ? "" : ", ", row.op);
  return text;
}

}  // namespace mezzo::interchange

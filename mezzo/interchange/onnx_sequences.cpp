#include "mezzo/interchange/onnx_sequences.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "mezzo/ops/argsort_attrs.h"
#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/cumsum_attrs.h"
#include "mezzo/ops/elementary_attrs.h"
#include "mezzo/ops/rms_norm_attrs.h"
#include "mezzo/ops/rope_attrs.h"
#include "mezzo/ops/triangular_attrs.h"

namespace mezzo::interchange::sequences {
namespace {

using Sizes = std::vector<std::int64_t>;

std::string number(OnnxGraph& graph, double value) {
  return graph.constant("number", Shape{}, static_cast<float>(value));
}

}  // namespace

// This opset has no RMS norm, so this writes x / sqrt(mean(x * x) + eps) * weight.
std::string rms_norm(OnnxGraph& graph, const TracedCall& call, const char* /*type*/) {
  using In = RmsNormInput;
  const auto& attrs = call.attrs.as<LayerNormAttrs>();
  const std::size_t rank = call.inputs[In::kX].rank();
  Sizes axes;
  for (std::int64_t i = 0; i < attrs.axes; ++i) {
    graph.check_closed(In::kX, rank - 1 - static_cast<std::size_t>(i));
    axes.push_back(i - attrs.axes);
  }
  const std::string x = graph.input(In::kX);
  const std::string square = graph.add("Mul", {x, x}).result();
  const std::string mean = graph.add("ReduceMean", {square}).set("axes", axes).result();
  const std::string sum = graph.add("Add", {mean, number(graph, attrs.eps)}).result();
  const std::string y = graph.add("Div", {x, graph.add("Sqrt", {sum}).result()}).result();
  const bool has_weight = call.inputs[In::kWeight].defined();
  return has_weight ? graph.add("Mul", {y, graph.input(In::kWeight)}).result() : y;
}

namespace {

// The cosines and sines of the positions of a sequence, [t, 1, ..., pairs].
struct AngleNames {
  std::string cosines;
  std::string sines;
};

// The sizes of cosines and sines; `length` may be -1.
Sizes sizes_of_angles(const RopeAttrs& attrs, std::int64_t length, std::int64_t pairs,
                      std::size_t rank) {
  Sizes sizes{length};
  for (std::size_t i = static_cast<std::size_t>(attrs.axis) + 2; i < rank; ++i) sizes.push_back(1);
  sizes.push_back(pairs);
  return sizes;
}

double frequency(const RopeAttrs& attrs, std::int64_t i, std::int64_t pairs) {
  return std::pow(attrs.theta, -static_cast<double>(i) / static_cast<double>(pairs));
}

// For a sequence of open length the graph computes the angles. In f64, up to a whole turn: an f32
// angle of position 100 000 has an error of 0.004, and run times have no cosine of f64.
AngleNames angles_of_any(OnnxGraph& graph, const RopeAttrs& attrs, std::int64_t pairs,
                         std::size_t rank) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < pairs; ++i) frequencies.push_back(frequency(attrs, i, pairs));
  const auto cast = [&](const std::string& x, onnx::TensorProto::DataType to) {
    return graph.add("Cast", {x}).set("to", static_cast<std::int64_t>(to)).result();
  };
  const std::string offset = graph.constant("offset", attrs.offset);
  const std::string end =
      graph.add("Add", {graph.size(0, static_cast<std::size_t>(attrs.axis)), offset}).result();
  const std::string rows =
      graph.add("Range", {offset, end, graph.constant("one", std::int64_t{1})}).result();
  const std::string column =
      graph.add("Unsqueeze", {rows, graph.constant("axes", Sizes{1})}).result();
  const std::string angles = graph
                                 .add("Mul", {cast(column, onnx::TensorProto::DOUBLE),
                                              graph.constant("frequencies", frequencies)})
                                 .result();
  const std::string turn = graph.constant("turn", std::vector<double>{2 * std::numbers::pi});
  const std::string rest = graph.add("Mod", {angles, turn}).set("fmod", std::int64_t{1}).result();
  const std::string shaped =
      graph
          .add("Reshape", {cast(rest, onnx::TensorProto::FLOAT),
                           graph.constant("shape", sizes_of_angles(attrs, -1, pairs, rank))})
          .result();
  const std::string sines = graph.add("Sin", {shaped}).result();
  return {graph.add("Cos", {shaped}).result(),
          attrs.inverse ? graph.add("Neg", {sines}).result() : sines};
}

AngleNames angles_of(OnnxGraph& graph, const RopeAttrs& attrs, const RopeRows& rows,
                     std::size_t rank) {
  if (graph.is_open(0, static_cast<std::size_t>(attrs.axis))) {
    return angles_of_any(graph, attrs, rows.pairs, rank);
  }
  std::vector<float> cosines;
  std::vector<float> sines;
  for (std::int64_t row = 0; row < rows.length; ++row) {
    for (std::int64_t i = 0; i < rows.pairs; ++i) {
      const double angle =
          static_cast<double>(row + attrs.offset) * frequency(attrs, i, rows.pairs);
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(attrs.inverse ? -std::sin(angle) : std::sin(angle)));
    }
  }
  const Sizes sizes = sizes_of_angles(attrs, rows.length, rows.pairs, rank);
  const auto shaped = [&](const char* role, const std::vector<float>& values) {
    return graph.add("Reshape", {graph.constant(role, values), graph.constant("shape", sizes)})
        .result();
  };
  return {shaped("cosines", cosines), shaped("sines", sines)};
}

// Every step-th element of the last axis of the input, from `start` up to `end`.
std::string part_of_last(OnnxGraph& graph, std::int64_t start, std::int64_t end,
                         std::int64_t step) {
  return graph
      .add("Slice", {graph.input(0), graph.constant("starts", Sizes{start}),
                     graph.constant("ends", Sizes{end}), graph.constant("axes", Sizes{-1}),
                     graph.constant("steps", Sizes{step})})
      .result();
}

// The elements of two tensors in turn, along the last axis.
std::string in_turn(OnnxGraph& graph, const std::string& a, const std::string& b, std::size_t rank,
                    std::int64_t size) {
  const auto column = [&](const std::string& x) {
    return graph.add("Unsqueeze", {x, graph.constant("axes", Sizes{-1})}).result();
  };
  const std::string pairs =
      graph.add("Concat", {column(a), column(b)}).set("axis", std::int64_t{-1}).result();
  Sizes sizes(rank, 0);  // 0 keeps a size
  sizes.back() = size;
  return graph.add("Reshape", {pairs, graph.constant("shape", sizes)}).result();
}

}  // namespace

// The angles become constants of the file, unless the length of the sequence is open.
std::string rope(OnnxGraph& graph, const TracedCall& call, const char* /*type*/) {
  const auto& attrs = call.attrs.as<RopeAttrs>();
  const Shape& shape = call.inputs[0].shape();
  if (call.inputs[1].defined()) {
    graph.refuse("it has positions of its own. Give an offset to rope() instead");
  }
  graph.check_not_batch(0, static_cast<std::size_t>(attrs.axis));
  graph.check_closed(0, shape.rank() - 1);
  const bool halves = attrs.pairing == RopePairing::kHalves;
  const std::int64_t d = shape.back();
  const std::int64_t step = halves ? 1 : 2;
  const std::string a = part_of_last(graph, 0, halves ? d / 2 : d, step);
  const std::string b = part_of_last(graph, halves ? d / 2 : 1, d, step);
  const AngleNames angles =
      angles_of(graph, attrs, rope_rows(shape, attrs.axis, false), shape.rank());
  const auto product = [&](const std::string& x, const std::string& y) {
    return graph.add("Mul", {x, y}).result();
  };
  const std::string first =
      graph.add("Sub", {product(a, angles.cosines), product(b, angles.sines)}).result();
  const std::string second =
      graph.add("Add", {product(b, angles.cosines), product(a, angles.sines)}).result();
  if (!halves) return in_turn(graph, first, second, shape.rank(), d);
  return graph.add("Concat", {first, second}).set("axis", std::int64_t{-1}).result();
}

std::string log1p(OnnxGraph& graph, const TracedCall& /*call*/, const char* type) {
  return graph.add(type, {graph.add("Add", {graph.input(0), number(graph, 1)}).result()}).result();
}

std::string rsqrt(OnnxGraph& graph, const TracedCall& /*call*/, const char* type) {
  return graph.add(type, {graph.add("Sqrt", {graph.input(0)}).result()}).result();
}

std::string softplus(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const double beta = call.attrs.as<SoftplusAttrs>().beta;
  if (beta == 1) return graph.add(type, {graph.input(0)}).result();
  const std::string scaled = graph.add("Mul", {graph.input(0), number(graph, beta)}).result();
  return graph.add("Div", {graph.add(type, {scaled}).result(), number(graph, beta)}).result();
}

std::string gather(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const std::int64_t axis = call.attrs.as<AxisAttrs>().axis;
  graph.check_not_batch(0, static_cast<std::size_t>(axis));
  return graph.add(type, {graph.input(0), graph.input(1)}).set("axis", axis).result();
}

std::string scatter_add(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const std::int64_t axis = call.attrs.as<AxisAttrs>().axis;
  graph.check_not_batch(0, static_cast<std::size_t>(axis));
  return graph.add(type, {graph.input(0), graph.input(1), graph.input(2)})
      .set("axis", axis)
      .set("reduction", "add")
      .result();
}

std::string argsort(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto& attrs = call.attrs.as<ArgsortAttrs>();
  graph.check_closed(0, static_cast<std::size_t>(attrs.axis));
  return graph.add(type, {graph.input(0), graph.constant("count", Sizes{attrs.count})})
      .set("axis", attrs.axis)
      .set("largest", std::int64_t{attrs.descending})
      .second_result("values");
}

std::string cumsum(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto& attrs = call.attrs.as<CumsumAttrs>();
  graph.check_not_batch(0, static_cast<std::size_t>(attrs.axis));
  return graph.add(type, {graph.input(0), graph.constant("axis", attrs.axis)})
      .set("reverse", std::int64_t{attrs.reverse})
      .result();
}

namespace {

std::string triangle(OnnxGraph& graph, const TracedCall& call, const char* type, bool upper) {
  const std::int64_t diagonal = call.attrs.as<TriangularAttrs>().diagonal;
  return graph.add(type, {graph.input(0), graph.constant("diagonal", diagonal)})
      .set("upper", std::int64_t{upper})
      .result();
}

}  // namespace

std::string tril(OnnxGraph& graph, const TracedCall& call, const char* type) {
  return triangle(graph, call, type, false);
}

std::string triu(OnnxGraph& graph, const TracedCall& call, const char* type) {
  return triangle(graph, call, type, true);
}

}  // namespace mezzo::interchange::sequences

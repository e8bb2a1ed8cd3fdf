#include "mezzo/interchange/onnx_choices.h"

#include <cmath>

#include "mezzo/core/convert_element.h"
#include "mezzo/ops/compare_attrs.h"
#include "mezzo/ops/select_attrs.h"

namespace mezzo::interchange {
namespace {

// A constant of the tensor's dtype, f32 or i64.
std::string number_like(OnnxGraph& graph, const Tensor& tensor, double number) {
  if (tensor.dtype() != DType::kI64) {
    return graph.constant("number", Shape{}, static_cast<float>(number));
  }
  if (number != std::round(number)) {
    graph.refuse("the number ", number, " is not an integer, but the tensor is ", tensor,
                 ". Give an integer");
  }
  return graph.constant("number", to_integer<std::int64_t>(number));
}

std::string compared(OnnxGraph& graph, Relation relation, const std::string& a,
                     const std::string& b) {
  constexpr const char* kTypes[] = {"Equal",       "Equal",   "Less",
                                    "LessOrEqual", "Greater", "GreaterOrEqual"};
  const std::string answer = graph.add(kTypes[static_cast<int>(relation)], {a, b}).result();
  return relation == Relation::kNe ? graph.add("Not", {answer}).result() : answer;
}

}  // namespace

std::string comparable(OnnxGraph& graph, const TracedCall& call, std::size_t i) {
  const std::string x = graph.input(i);
  if (call.inputs[i].dtype() != DType::kBool) return x;
  return graph.add("Cast", {x}).set("to", std::int64_t{onnx::TensorProto::FLOAT}).result();
}

std::string compare(OnnxGraph& graph, const TracedCall& call, const char* /*type*/) {
  const std::string a = comparable(graph, call, 0);
  return compared(graph, call.attrs.as<CompareAttrs>().relation, a, comparable(graph, call, 1));
}

std::string compare_number(OnnxGraph& graph, const TracedCall& call, const char* /*type*/) {
  const auto& attrs = call.attrs.as<CompareNumberAttrs>();
  const std::string x = comparable(graph, call, 0);
  return compared(graph, attrs.relation, x, number_like(graph, call.inputs[0], attrs.number));
}

std::string masked_fill(OnnxGraph& graph, const TracedCall& call, const char* type) {
  const auto& attrs = call.attrs.as<MaskedFillAttrs>();
  if (call.inputs[0].dtype() == DType::kBool) graph.refuse("fills bools. Use where()");
  const Tensor& filled = call.inputs[0];
  const std::string number = number_like(graph, filled, filling(attrs.number, filled.dtype()));
  const std::string x = graph.input(0);
  const std::string mask = graph.input(1);
  return graph.add(type, {mask, attrs.where ? number : x, attrs.where ? x : number}).result();
}

}  // namespace mezzo::interchange

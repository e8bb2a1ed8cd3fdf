// The nodes of exported networks as text, for tests.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "tests/unit/interchange/onnx_model.h"

namespace mezzo::interchange {

template <class Values>
inline std::string list_of(const Values& values) {
  std::string text;
  for (const auto& value : values) text += concat(text.empty() ? "" : ",", value);
  return "[" + text + "]";
}

inline std::string text_of(const onnx::AttributeProto& attribute) {
  switch (attribute.type()) {
    case onnx::AttributeProto::INT: return concat(" ", attribute.name(), "=", attribute.i());
    case onnx::AttributeProto::FLOAT: return concat(" ", attribute.name(), "=", attribute.f());
    case onnx::AttributeProto::STRING: return concat(" ", attribute.name(), "=", attribute.s());
    default: return concat(" ", attribute.name(), "=", list_of(attribute.ints()));
  }
}

// Constants as their values: `2` of rank 0, `[2,3]` of rank 1; state as its name.
inline std::map<std::string, std::string> texts_of_constants(const onnx::GraphProto& graph) {
  std::map<std::string, std::string> texts;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (tensor.has_raw_data()) continue;
    std::string& text = texts[tensor.name()];
    text = tensor.data_type() == onnx::TensorProto::INT64 ? list_of(tensor.int64_data())
                                                          : list_of(tensor.float_data());
    if (tensor.dims_size() == 0) text = text.substr(1, text.size() - 2);
  }
  return texts;
}

// `TYPE(INPUT, ...) ATTRIBUTE=VALUE ...`, a line per node.
inline std::string nodes_of(const onnx::ModelProto& model) {
  onnx::checker::check_model(model);
  const std::map<std::string, std::string> constants = texts_of_constants(model.graph());
  std::string text;
  for (const onnx::NodeProto& node : model.graph().node()) {
    std::string inputs;
    for (const std::string& name : node.input()) {
      const auto found = constants.find(name);
      inputs += concat(inputs.empty() ? "" : ", ", found == constants.end() ? name : found->second);
    }
    text += concat(text.empty() ? "" : "\n", node.op_type(), "(", inputs, ")");
    for (const onnx::AttributeProto& attribute : node.attribute()) text += text_of(attribute);
  }
  return text;
}

inline std::string nodes_of(nn::Module& net, const Shape& example, DType input = DType::kF32) {
  onnx::ModelProto model;
  model.ParseFromString(serialize_onnx(net, example, {.input = input}));
  return nodes_of(model);
}

using Function = std::function<Tensor(const Tensor&)>;

inline std::string nodes_of(Function function, const Shape& example, DType input = DType::kF32) {
  Net net(std::move(function));
  return nodes_of(net, example, input);
}

// The nodes of a function of [n, 4], to be compared with the function.
inline std::string of_rows(Function function) { return nodes_of(std::move(function), {4}); }

}  // namespace mezzo::interchange

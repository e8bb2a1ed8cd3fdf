// Shared code of the tests of ONNX export: networks, and the contents of their files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include "mezzo/interchange/onnx.h"
#include "tests/unit/message_of.h"

namespace mezzo::interchange {

inline onnx::ModelProto exported(nn::Module& net, const Shape& example) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(serialize_onnx(net, example)));
  return model;
}

// Runs ONNX's own checker, and returns the shape that it infers for the output.
inline std::vector<std::string> checked_output(onnx::ModelProto& model) {
  onnx::checker::check_model(model);
  // Shapes are inferred from the nodes, not read from the file's description of its output.
  onnx::ValueInfoProto& output = *model.mutable_graph()->mutable_output(0);
  output.mutable_type()->mutable_tensor_type()->clear_shape();
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), {true, 1, true});
  std::vector<std::string> dims;
  for (const auto& dim : output.type().tensor_type().shape().dim()) {
    dims.push_back(dim.has_dim_param() ? dim.dim_param() : std::to_string(dim.dim_value()));
  }
  return dims;
}

inline const onnx::NodeProto& node(const onnx::ModelProto& model, std::string_view name) {
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.name() == name) return node;
  }
  fail("test", "there is no node ", name);
}

// A network that consists of one function.
class Net : public nn::Module {
 public:
  explicit Net(std::function<Tensor(const Tensor&)> function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

inline std::string refusal(nn::Module& net, const Shape& example) {
  return message_of<UnsupportedError>([&] { serialize_onnx(net, example); });
}

}  // namespace mezzo::interchange

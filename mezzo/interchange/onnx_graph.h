// An ONNX graph under construction: nodes, constants, and the names of tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <onnx/onnx_pb.h>

#include "mezzo/interchange/trace.h"

namespace mezzo::interchange {

// The ONNX dtype of f32, i64 and bool; nullopt for other dtypes.
std::optional<onnx::TensorProto::DataType> onnx_type(DType dtype);

// A node that was added, for setting its attributes.
class OnnxNode {
 public:
  explicit OnnxNode(onnx::NodeProto& node) : node_(node) {}

  OnnxNode& set(const char* attribute, std::int64_t value);
  OnnxNode& set(const char* attribute, float value);
  OnnxNode& set(const char* attribute, const char* value);
  OnnxNode& set(const char* attribute, std::span<const std::int64_t> values);
  // The name of its result.
  const std::string& result() const { return node_.output(0); }

 private:
  onnx::AttributeProto& add(const char* attribute, onnx::AttributeProto::AttributeType type);

  onnx::NodeProto& node_;
};

class OnnxGraph {
 public:
  // Parameters and statistics of the network are named as soon as a node reads them. `reserved`:
  // names of inputs and outputs. Throws ArgumentError if one of them occurs twice, or is that of
  // state of the network.
  OnnxGraph(onnx::GraphProto& graph, const nn::Module& net, std::span<const std::string> reserved);

  // Sets the call that is being translated: its path begins the names of its nodes, and errors name
  // it. `other` is the same call for a batch of another size. Throws UnsupportedError if the number
  // of axes depends on the batch.
  void begin(const TracedCall& call, const CallSizes& other);

  // Gives the tensor a name; its memory must live as long as the graph.
  void name(const Tensor& tensor, const std::string& name) { names_[tensor.impl()] = name; }
  // The name of input i of the current call. Throws UnsupportedError if the tensor is unknown:
  // neither an input of the network, nor state, nor the result of a call.
  std::string input(std::size_t i);
  // False for a tensor that the forward pass created on its own.
  bool is_known(const Tensor& tensor) const;

  // Whether the size of an axis of input i, or of the result, depends on the batch, whose size is
  // open.
  bool is_open(std::size_t i, std::size_t axis) const;
  bool is_open_in_result(std::size_t axis) const;
  // Whether an axis of input i is as long as that of the result for batches of any size.
  bool has_size_of_result(std::size_t i, std::size_t axis, std::size_t result_axis) const;
  // Throws UnsupportedError if an axis of input i is open: the current call would slice or reduce
  // it.
  void check_closed(std::size_t i, std::size_t axis) const;

  // Makes the tensor an output of the graph under that name, a copy if it is one already. Throws
  // ArgumentError if no node produces it.
  void finish(const Tensor& output, const std::string& name);

  // Adds a node with one result. An empty input name stands for an absent input.
  OnnxNode add(const char* type, const std::vector<std::string>& inputs);
  // Adds a constant and returns its name.
  std::string constant(const char* role, std::span<const std::int64_t> values);
  std::string constant(const char* role, std::span<const float> values);
  std::string constant(const char* role, const Shape& shape, float value);
  std::string constant(const char* role, std::int64_t value);  // of rank 0

  // Throws UnsupportedError about the current call.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail<UnsupportedError>("export", call_->op->name, " in ", place(), ": ", parts...);
  }

 private:
  struct State {
    std::string name;
    Tensor tensor;
    bool added = false;  // whether the graph has it already
  };

  template <class Map>
  static auto find(Map& map, const Tensor& tensor);
  std::string place() const;
  std::string unique(std::string_view name);
  void add_state(State& state);

  onnx::GraphProto& graph_;
  const TracedCall* call_ = nullptr;
  const CallSizes* other_ = nullptr;
  std::map<const TensorImpl*, State> state_;
  std::map<const TensorImpl*, std::string> names_;
  std::set<std::string, std::less<>> taken_;
  std::set<std::string, std::less<>> outputs_;  // names of outputs that nodes produce
};

}  // namespace mezzo::interchange

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
  // For operators whose second result is wanted: gives the first one the name `first`, within that
  // of the node, and returns the name of the second.
  std::string second_result(const char* first);

 private:
  onnx::AttributeProto& add(const char* attribute, onnx::AttributeProto::AttributeType type);

  onnx::NodeProto& node_;
};

// An open length of sequences: axis 1 of an input.
struct OpenLength {
  std::string input{};      // its name
  std::int64_t traced = 0;  // the length in the calls that are translated
  std::int64_t other = 0;   // that in the calls they are compared with
};

// The same call for other inputs. What differs depends on what is open.
struct OtherCalls {
  const CallSizes& batch;             // for a batch of another size
  const CallSizes* length = nullptr;  // for sequences of another length, if that is open, too
};

class OnnxGraph {
 public:
  // Parameters and statistics of the network are named as soon as a node reads them. `reserved`:
  // names of inputs and outputs. `length` is absent where only the batch is open. Throws
  // ArgumentError if a name occurs twice, or is that of state of the network.
  OnnxGraph(onnx::GraphProto& graph, const nn::Module& net, std::span<const std::string> reserved,
            std::optional<OpenLength> length = std::nullopt);

  // Sets the call that is being translated: its path begins the names of its nodes, and errors name
  // it. Throws UnsupportedError if the number of axes depends on what is open.
  void begin(const TracedCall& call, const OtherCalls& others);

  // Gives the tensor a name; its memory must live as long as the graph.
  void name(const Tensor& tensor, const std::string& name) { names_[tensor.impl()] = name; }
  // The name of input i of the current call. Throws UnsupportedError if the tensor is unknown:
  // neither an input of the network, nor state, nor the result of a call.
  std::string input(std::size_t i);
  // False for a tensor that the forward pass created on its own.
  bool is_known(const Tensor& tensor) const;

  // Whether the size of an axis of input i, or of the result, is open: it depends on the batch or
  // the length.
  bool is_open(std::size_t i, std::size_t axis) const;
  bool is_open_in_result(std::size_t axis) const;
  // Whether an axis of input i is as long as that of the result for all batches and
  // lengths.
  bool has_size_of_result(std::size_t i, std::size_t axis, std::size_t result_axis) const;
  // Throws UnsupportedError if an axis of input i is open: the current call needs its size.
  void check_closed(std::size_t i, std::size_t axis) const;
  // Throws UnsupportedError if an axis of input i is that of the batch: the current call would
  // slice or reduce it. That of the sequence may be open.
  void check_not_batch(std::size_t i, std::size_t axis) const;

  // The attributes of the current call for the other length; its own, where the length is closed.
  const Attrs& attrs_for_other_length() const;
  // The size of an axis of input i, i64 of rank 0: a constant unless it is open.
  std::string size(std::size_t i, std::size_t axis);
  // A position along an axis, i64 [1], which is `value` in the current call and `other` for the
  // other length: a constant if both are the same, else the length plus a constant. Throws
  // UnsupportedError if it is neither.
  std::string position(const char* role, std::int64_t value, std::int64_t other);

  // Makes the tensor an output of the graph under that name, a copy if it is one already. Throws
  // ArgumentError if no node produces it.
  void finish(const Tensor& output, const std::string& name);

  // Adds a node with one result. An empty input name stands for an absent input.
  OnnxNode add(const char* type, const std::vector<std::string>& inputs);
  // Adds a constant and returns its name.
  std::string constant(const char* role, std::span<const std::int64_t> values);
  std::string constant(const char* role, std::span<const float> values);
  std::string constant(const char* role, std::span<const double> values);
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
  std::string shape_of(const std::string& tensor, std::int64_t axis);
  std::string unique(std::string_view name);
  void add_state(State& state);

  onnx::GraphProto& graph_;
  const TracedCall* call_ = nullptr;
  const CallSizes* other_batch_ = nullptr;
  const CallSizes* other_length_ = nullptr;  // null where the length is closed
  std::optional<OpenLength> length_;
  std::string length_name_;  // of the length, i64 [1]; empty until a node reads it
  std::map<const TensorImpl*, State> state_;
  std::map<const TensorImpl*, std::string> names_;
  std::set<std::string, std::less<>> taken_;
  std::set<std::string, std::less<>> outputs_;  // names of outputs that nodes produce
};

}  // namespace mezzo::interchange

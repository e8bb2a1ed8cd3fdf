#include "mezzo/interchange/onnx_graph.h"

#include "mezzo/ops/cast.h"

namespace mezzo::interchange {

std::optional<onnx::TensorProto::DataType> onnx_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return onnx::TensorProto::FLOAT;
    case DType::kI64: return onnx::TensorProto::INT64;
    case DType::kBool: return onnx::TensorProto::BOOL;
    default: return std::nullopt;
  }
}

onnx::AttributeProto& OnnxNode::add(const char* attribute,
                                    onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& added = *node_.add_attribute();
  added.set_name(attribute);
  added.set_type(type);
  return added;
}

OnnxNode& OnnxNode::set(const char* attribute, std::int64_t value) {
  add(attribute, onnx::AttributeProto::INT).set_i(value);
  return *this;
}

OnnxNode& OnnxNode::set(const char* attribute, float value) {
  add(attribute, onnx::AttributeProto::FLOAT).set_f(value);
  return *this;
}

OnnxNode& OnnxNode::set(const char* attribute, const char* value) {
  add(attribute, onnx::AttributeProto::STRING).set_s(value);
  return *this;
}

OnnxNode& OnnxNode::set(const char* attribute, std::span<const std::int64_t> values) {
  onnx::AttributeProto& added = add(attribute, onnx::AttributeProto::INTS);
  for (const std::int64_t value : values) added.add_ints(value);
  return *this;
}

std::string OnnxNode::second_result(const char* first) {
  node_.add_output(node_.output(0));
  node_.set_output(0, concat(node_.name(), "/", first));
  return node_.output(1);
}

OnnxGraph::OnnxGraph(onnx::GraphProto& graph, const nn::Module& net,
                     std::span<const std::string> reserved, std::optional<OpenLength> length)
    : graph_(graph), length_(std::move(length)) {
  for (const std::string& name : reserved) {
    check_arg(!name.empty() && taken_.insert(name).second, "export", "two inputs or outputs are ",
              "called `", name, "`. Give each a name of its own");
  }
  for (const NamedTensor& entry : net.state()) {
    check_arg(taken_.insert(entry.name).second, "export", "a parameter or buffer is called `",
              entry.name,
              "`, which is also the name of the network's input, its output or other state. "
              "Register it under another name");
    state_.emplace(entry.tensor.impl(), State{entry.name, entry.tensor});
  }
}

void OnnxGraph::begin(const TracedCall& call, const OtherCalls& others) {
  call_ = &call;
  other_batch_ = &others.batch;
  other_length_ = others.length;
  const auto check = [&](const Tensor& tensor, const Shape& shape) {
    if (!tensor.defined() || tensor.rank() == shape.rank()) return;
    refuse("a tensor has the shape ", tensor.shape(), " for one batch and ", shape,
           " for another. Give it as many axes for all of them");
  };
  for (const CallSizes* other : {other_batch_, other_length_}) {
    if (other == nullptr) continue;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) check(call.inputs[i], other->inputs[i]);
    for (std::size_t i = 0; i < call.outputs.size(); ++i) check(call.outputs[i], other->outputs[i]);
  }
}

// The entry of a tensor, or of one with the same elements, since detach() makes another handle to
// them.
template <class Map>
auto OnnxGraph::find(Map& map, const Tensor& tensor) {
  const auto found = map.find(tensor.impl());
  if (found != map.end()) return found;
  return std::ranges::find_if(
      map, [&](const auto& entry) { return have_same_elements(*entry.first, *tensor.impl()); });
}

std::string OnnxGraph::place() const {
  return call_->path.empty() ? "the network itself" : concat("`", call_->path, "`");
}

bool OnnxGraph::is_known(const Tensor& tensor) const {
  return find(names_, tensor) != names_.end() || find(state_, tensor) != state_.end();
}

std::string OnnxGraph::input(std::size_t i) {
  const Tensor& tensor = call_->inputs[i];
  if (const auto named = find(names_, tensor); named != names_.end()) return named->second;
  const auto found = find(state_, tensor);
  if (found == state_.end()) {
    refuse(
        "its input ", i, ", ", tensor, ", is neither the network's input nor state nor the ",
        "result of an operation. If it belongs to a module, add() that; if it is a constant, make "
        "it a buffer with add_buffer(); and export in f32");
  }
  if (!found->second.added) add_state(found->second);
  return found->second.name;
}

bool OnnxGraph::is_open(std::size_t i, std::size_t axis) const {
  const std::int64_t size = call_->inputs[i].shape()[axis];
  return size != other_batch_->inputs[i][axis] ||
         (other_length_ != nullptr && size != other_length_->inputs[i][axis]);
}

bool OnnxGraph::is_open_in_result(std::size_t axis) const {
  const std::int64_t size = call_->outputs[0].shape()[axis];
  return size != other_batch_->outputs[0][axis] ||
         (other_length_ != nullptr && size != other_length_->outputs[0][axis]);
}

bool OnnxGraph::has_size_of_result(std::size_t i, std::size_t axis, std::size_t result_axis) const {
  const auto is_same_in = [&](const CallSizes& other) {
    return other.inputs[i][axis] == other.outputs[0][result_axis];
  };
  return call_->inputs[i].shape()[axis] == call_->outputs[0].shape()[result_axis] &&
         is_same_in(*other_batch_) && (other_length_ == nullptr || is_same_in(*other_length_));
}

void OnnxGraph::check_not_batch(std::size_t i, std::size_t axis) const {
  if (call_->inputs[i].shape()[axis] == other_batch_->inputs[i][axis]) return;
  refuse("axis ", axis, " of its input ", i, ", ", call_->inputs[i].shape(),
         ", is that of the batch, whose size is open in ONNX. Keep it whole");
}

void OnnxGraph::check_closed(std::size_t i, std::size_t axis) const {
  check_not_batch(i, axis);
  if (!is_open(i, axis)) return;
  refuse("axis ", axis, " of its input ", i, ", ", call_->inputs[i].shape(),
         ", is that of the sequence, whose length is open. Export with a fixed length");
}

const Attrs& OnnxGraph::attrs_for_other_length() const {
  return other_length_ != nullptr ? other_length_->attrs : call_->attrs;
}

// The size of one axis, i64 [1].
std::string OnnxGraph::shape_of(const std::string& tensor, std::int64_t axis) {
  return add("Shape", {tensor}).set("start", axis).set("end", axis + 1).result();
}

std::string OnnxGraph::size(std::size_t i, std::size_t axis) {
  if (!is_open(i, axis)) return constant("size", call_->inputs[i].shape()[axis]);
  const std::string sizes = shape_of(input(i), static_cast<std::int64_t>(axis));
  return add("Gather", {sizes, constant("first", std::int64_t{0})}).result();
}

std::string OnnxGraph::position(const char* role, std::int64_t value, std::int64_t other) {
  if (value == other) return constant(role, std::span(&value, 1));
  if (!length_.has_value() || value - other != length_->traced - length_->other) {
    refuse("a position is ", value, " for one length of the sequence and ", other,
           " for another, which is not the length plus a constant. Export with a fixed length");
  }
  if (length_name_.empty()) length_name_ = shape_of(length_->input, 1);
  const std::int64_t offset = value - length_->traced;
  if (offset == 0) return length_name_;
  return add("Add", {length_name_, constant(role, std::span(&offset, 1))}).result();
}

void OnnxGraph::add_state(State& state) {
  const std::optional<onnx::TensorProto::DataType> type = onnx_type(state.tensor.dtype());
  if (!type.has_value()) {
    refuse("`", state.name, "` is ", state.tensor.dtype(),
           ". Load it into a network in f32, or call amp::full_parameters()");
  }
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(state.name);
  tensor.set_data_type(*type);
  for (const std::int64_t size : state.tensor.shape()) tensor.add_dims(size);
  const Tensor dense = to_format(state.tensor.detach().to(kCpuDevice), Format::kContiguous);
  tensor.set_raw_data(dense.raw_data(), dense.bytes());
  state.added = true;
}

void OnnxGraph::finish(const Tensor& output, const std::string& name) {
  const auto found = find(names_, output);
  if (found != names_.end() && outputs_.contains(found->second)) {
    onnx::NodeProto& copy = *graph_.add_node();
    copy.set_name(unique("Identity"));
    copy.set_op_type("Identity");
    copy.add_input(found->second);
    copy.add_output(name);
    return;
  }
  bool is_result = false;
  for (onnx::NodeProto& node : *graph_.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (found != names_.end() && input == found->second) input = name;
    }
    const int last = node.output_size() - 1;  // the result that others read
    if (found == names_.end() || node.output(last) != found->second) continue;
    node.set_output(last, name);
    is_result = true;
  }
  check_arg(is_result, "export", "the network's output, ", output,
            ", is not the result of an operation on its input. Return the result of one");
  // A tensor that differs in its memory format alone has the same name.
  const std::string former = found->second;
  for (auto& [tensor, known] : names_) {
    if (known == former) known = name;
  }
  outputs_.insert(name);
}

std::string OnnxGraph::unique(std::string_view name) {
  std::string path = call_->path.empty() ? std::string(name) : concat(call_->path, "/", name);
  std::string result = path;
  for (int i = 2; !taken_.insert(result).second; ++i) result = concat(path, "_", i);
  return result;
}

OnnxNode OnnxGraph::add(const char* type, const std::vector<std::string>& inputs) {
  onnx::NodeProto& node = *graph_.add_node();
  const std::string name = unique(type);
  node.set_name(name);
  node.set_op_type(type);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(name);
  return OnnxNode(node);
}

std::string OnnxGraph::constant(const char* role, std::span<const std::int64_t> values) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(unique(role));
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const std::int64_t value : values) tensor.add_int64_data(value);
  return tensor.name();
}

std::string OnnxGraph::constant(const char* role, std::span<const float> values) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(unique(role));
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const float value : values) tensor.add_float_data(value);
  return tensor.name();
}

std::string OnnxGraph::constant(const char* role, std::span<const double> values) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(unique(role));
  tensor.set_data_type(onnx::TensorProto::DOUBLE);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const double value : values) tensor.add_double_data(value);
  return tensor.name();
}

std::string OnnxGraph::constant(const char* role, std::int64_t value) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(unique(role));
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_int64_data(value);
  return tensor.name();
}

std::string OnnxGraph::constant(const char* role, const Shape& shape, float value) {
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(unique(role));
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t size : shape) tensor.add_dims(size);
  for (std::int64_t i = 0; i < shape.numel(); ++i) tensor.add_float_data(value);
  return tensor.name();
}

}  // namespace mezzo::interchange

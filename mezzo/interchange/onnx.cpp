#include "mezzo/interchange/onnx.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "mezzo/interchange/onnx_graph.h"
#include "mezzo/interchange/onnx_ops.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/ops/dispatcher/no_draw.h"

namespace mezzo::interchange {
namespace {

constexpr std::int64_t kIrVersion = 8;
constexpr std::int64_t kOpset = 17;

// Two batch sizes, neither of which an axis of size 1 can be expanded from.
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kOtherBatch = 3;

// Describes a tensor of that dtype and shape, whose first axis is open. Other axes that depend on
// the batch are left out, since ONNX cannot express them.
void describe(onnx::ValueInfoProto& value, const std::string& name, const Tensor& tensor,
              const Shape& other) {
  const Shape& shape = tensor.shape();
  value.set_name(name);
  onnx::TypeProto::Tensor& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_type(tensor.dtype()).value_or(onnx::TensorProto::FLOAT));
  type.mutable_shape()->add_dim()->set_dim_param("N");
  for (std::size_t i = 1; i < shape.rank(); ++i) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (shape[i] == other[i]) dim.set_dim_value(shape[i]);
  }
}

void translate(OnnxGraph& graph, const TracedCall& call, const CallSizes& other) {
  graph.begin(call, other);
  const Translation* translation = find_translation(call.op->name);
  if (translation == nullptr) {
    graph.refuse("this operation has no translation to ONNX. Supported operations are ",
                 translated_ops());
  }
  const RandomPosition* const drawn = call.attrs.random_position();
  if (drawn != nullptr && *drawn != kDrawsNothing) {
    graph.refuse("it draws random numbers. Give a dropout of 0 outside training");
  }
  if (!translation->attrs_are_sizes && call.attrs != other.attrs) {
    graph.refuse("it depends on the size of the batch, which is open in ONNX: ",
                 call.attrs.to_text(), " for ", kBatch, " and ", other.attrs.to_text(), " for ",
                 kOtherBatch, ". Make it the same for all sizes");
  }
  graph.name(call.outputs[0], translation->translate(graph, call, translation->type));
}

void check_same_calls(const Trace& trace, const TraceSizes& other) {
  if (std::ranges::equal(trace.calls, other.calls, {}, &TracedCall::op, &CallSizes::op)) return;
  fail<UnsupportedError>("export", "the network calls other operations for a batch of ", kBatch,
                         " than for one of ", kOtherBatch,
                         ". Call the same operations for all sizes");
}

void check_output(const Shape& output, const Shape& other) {
  const bool has_batch = output.rank() > 0 && output.rank() == other.rank() &&
                         output[0] == kBatch && other[0] == kOtherBatch;
  check_arg(has_batch, "export", "the network's output has shape ", output, " for a batch of ",
            kBatch, ". Its first axis must be that of the batch");
}

// The names of the graph's inputs and outputs, in order; empty for tensors that are left out.
struct Names {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;

  std::vector<std::string> all() const {
    std::vector<std::string> result;
    for (const auto* names : {&inputs, &outputs}) {
      std::ranges::copy_if(*names, std::back_inserter(result),
                           [](const std::string& name) { return !name.empty(); });
    }
    return result;
  }
};

void fill_graph(onnx::GraphProto& proto, const nn::Module& net, const Names& names,
                const Trace& trace, const TraceSizes& other) {
  check_same_calls(trace, other);
  const std::vector<std::string> reserved = names.all();
  OnnxGraph graph(proto, net, reserved);
  for (std::size_t i = 0; i < trace.inputs.size(); ++i) {
    if (trace.inputs[i].defined()) graph.name(trace.inputs[i], names.inputs[i]);
  }
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    translate(graph, trace.calls[i], other.calls[i]);
  }
  for (std::size_t i = 0; i < trace.inputs.size(); ++i) {
    if (!trace.inputs[i].defined()) continue;
    describe(*proto.add_input(), names.inputs[i], trace.inputs[i], other.inputs[i]);
  }
  for (std::size_t i = 0; i < trace.outputs.size(); ++i) {
    if (!trace.outputs[i].defined()) continue;
    graph.finish(trace.outputs[i], names.outputs[i]);
    check_output(trace.outputs[i].shape(), other.outputs[i]);
    describe(*proto.add_output(), names.outputs[i], trace.outputs[i], other.outputs[i]);
  }
}

Tensor zero_batch(std::int64_t size, const Shape& example, DType dtype) {
  Shape shape{size};
  for (const std::int64_t axis : example) shape.push_back(axis);
  return zeros(shape, dtype);
}

bool takes(nn::Module& net, const Tensor& input) {
  try {
    trace_forward(net, input);
    return true;
  } catch (const ArgumentError&) {
    return false;
  }
}

// Token indices are i64, images f32: a network that refuses one may take the other.
Trace trace_batch(nn::Module& net, std::int64_t size, const Shape& example, DType dtype) {
  try {
    return trace_forward(net, zero_batch(size, example, dtype));
  } catch (const ArgumentError&) {
    const bool is_f32 = dtype == DType::kF32;
    const DType other = is_f32 ? DType::kI64 : DType::kF32;
    if (!takes(net, zero_batch(size, example, other))) throw;
    fail("export", "the network takes an input of ", other, ", not of ", dtype,
         ". Set OnnxOptions::input to DType::", is_f32 ? "kI64" : "kF32");
  }
}

}  // namespace

namespace {

std::string serialize(const nn::Module& net, const Names& names, const Trace& trace,
                      const TraceSizes& other) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("mezzo");
  onnx::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOpset);
  model.mutable_graph()->set_name("mezzo");
  fill_graph(*model.mutable_graph(), net, names, trace, other);
  std::string bytes;
  // The size is compared first, because protobuf would print a line of its own.
  const bool fits = model.ByteSizeLong() <= std::size_t{std::numeric_limits<int>::max()};
  if (!fits || !model.SerializeToString(&bytes)) {
    fail<UnsupportedError>(
        "export",
        "the network is larger than an ONNX file can be: 2 GB. Save its weights as safetensors");
  }
  return bytes;
}

nn::Tensors zero_batches(std::int64_t size, const std::vector<OnnxInput>& inputs) {
  nn::Tensors batch;
  for (const OnnxInput& input : inputs) {
    batch.push_back(input.left_out ? Tensor() : zero_batch(size, input.example, input.dtype));
  }
  return batch;
}

std::vector<std::string> names_of_inputs(const std::vector<OnnxInput>& inputs) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const OnnxInput& input = inputs[i];
    check_arg(onnx_type(input.dtype).has_value(), "export", "input ", i,
              " must be f32, i64 or bool, not ", input.dtype);
    names.push_back(input.left_out ? "" : input.name.empty() ? concat("x", i) : input.name);
  }
  return names;
}

std::vector<std::string> names_of_results(const nn::Tensors& outputs,
                                          const std::vector<std::string>& given) {
  check_arg(given.empty() || given.size() == outputs.size(), "export", "there are ", given.size(),
            " names for the ", outputs.size(), " results of the network. Give one for each");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool is_there = outputs[i].defined();
    names.push_back(!is_there ? "" : given.empty() ? concat("y", i) : given[i]);
    check_arg(!is_there || !names.back().empty(), "export", "the name of result ", i,
              " is empty. Give it one");
  }
  return names;
}

}  // namespace

std::string serialize_onnx(nn::Module& net, const Shape& example, const OnnxOptions& options) {
  check_arg(options.input == DType::kF32 || options.input == DType::kI64, "export",
            "the input must be f32 or i64, not ", options.input);
  const TraceSizes other = sizes_of(trace_batch(net, kOtherBatch, example, options.input));
  return serialize(net, {{"input"}, {"output"}}, trace_batch(net, kBatch, example, options.input),
                   other);
}

std::string serialize_onnx(nn::Module& net, const OnnxSignature& signature) {
  const std::vector<OnnxInput>& inputs = signature.inputs;
  Names names{.inputs = names_of_inputs(inputs), .outputs = {}};
  const TraceSizes other = sizes_of(trace_forward(net, zero_batches(kOtherBatch, inputs)));
  const Trace trace = trace_forward(net, zero_batches(kBatch, inputs));
  check_arg(trace.outputs.size() == other.outputs.size(), "export", "the network has ",
            trace.outputs.size(), " results for a batch of ", kBatch, " and ", other.outputs.size(),
            " for one of ", kOtherBatch, ". Return as many for all sizes");
  names.outputs = names_of_results(trace.outputs, signature.results);
  return serialize(net, names, trace, other);
}

void export_onnx(nn::Module& net, const Shape& example, const std::string& path,
                 const OnnxOptions& options) {
  const std::string bytes = serialize_onnx(net, example, options);
  io::write_file(path, std::as_bytes(std::span(bytes)), "export");
}

void export_onnx(nn::Module& net, const OnnxSignature& signature, const std::string& path) {
  const std::string bytes = serialize_onnx(net, signature);
  io::write_file(path, std::as_bytes(std::span(bytes)), "export");
}

}  // namespace mezzo::interchange

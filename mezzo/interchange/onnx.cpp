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

// What the network does with other batches, and with sequences of another length if that is open.
struct OtherTraces {
  TraceSizes batch{};
  std::optional<TraceSizes> length{};
  std::optional<OpenLength> open_length{};

  OtherCalls call(std::size_t i) const {
    return {batch.calls[i], length.has_value() ? &length->calls[i] : nullptr};
  }
};

// The shapes of an input or output for the other batch, and for the other length.
struct OtherShapes {
  const Shape& batch;
  const Shape& length;
  std::optional<OpenLength> open_length{};
};

// Describes a tensor of that dtype and shape, whose first axis is open, and those that are as long
// as an open sequence. Other axes that depend on the batch or the length are left out, since ONNX
// cannot express them.
void describe(onnx::ValueInfoProto& value, const std::string& name, const Tensor& tensor,
              const OtherShapes& other) {
  const Shape& shape = tensor.shape();
  value.set_name(name);
  onnx::TypeProto::Tensor& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_type(tensor.dtype()).value_or(onnx::TensorProto::FLOAT));
  type.mutable_shape()->add_dim()->set_dim_param("N");
  for (std::size_t i = 1; i < shape.rank(); ++i) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (shape[i] != other.batch[i]) continue;
    if (shape[i] == other.length[i]) {
      dim.set_dim_value(shape[i]);
    } else if (shape[i] == other.open_length->traced &&
               other.length[i] == other.open_length->other) {
      dim.set_dim_param("T");
    }
  }
}

void check_attrs(const OnnxGraph& graph, const TracedCall& call, const OtherCalls& others,
                 Varies vary) {
  if (vary == Varies::kWithSizes) return;
  if (call.attrs != others.batch.attrs) {
    graph.refuse("it depends on the size of the batch, which is open in ONNX: ",
                 call.attrs.to_text(), " for ", kBatch, " and ", others.batch.attrs.to_text(),
                 " for ", kOtherBatch, ". Make it the same for all sizes");
  }
  if (vary == Varies::kWithLength || call.attrs == graph.attrs_for_other_length()) return;
  graph.refuse("it depends on the length of the sequence, which is open: ", call.attrs.to_text(),
               " for one and ", graph.attrs_for_other_length().to_text(),
               " for another. Export with a fixed length");
}

void translate(OnnxGraph& graph, const TracedCall& call, const OtherCalls& others) {
  graph.begin(call, others);
  const Translation* translation = find_translation(call.op->name);
  if (translation == nullptr) {
    graph.refuse("this operation has no translation to ONNX. Supported operations are ",
                 translated_ops());
  }
  const RandomPosition* const drawn = call.attrs.random_position();
  if (drawn != nullptr && *drawn != kDrawsNothing) {
    graph.refuse("it draws random numbers. Give a dropout of 0 outside training");
  }
  check_attrs(graph, call, others, translation->attrs_vary);
  graph.name(call.outputs[0], translation->translate(graph, call, translation->type));
}

bool has_same_calls(const Trace& trace, const TraceSizes& other) {
  return std::ranges::equal(trace.calls, other.calls, {}, &TracedCall::op, &CallSizes::op);
}

void check_same_calls(const Trace& trace, const OtherTraces& others) {
  if (!has_same_calls(trace, others.batch)) {
    fail<UnsupportedError>("export", "the network calls other operations for a batch of ", kBatch,
                           " than for one of ", kOtherBatch,
                           ". Call the same operations for all sizes");
  }
  if (!others.length.has_value() || has_same_calls(trace, *others.length)) return;
  fail<UnsupportedError>("export", "the network calls other operations for a sequence of ",
                         others.open_length->traced, " than for one of ", others.open_length->other,
                         ", as recurrent layers do, which are written step by step. Export with a "
                         "fixed length");
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
                const Trace& trace, const OtherTraces& others) {
  check_same_calls(trace, others);
  const TraceSizes& other = others.batch;
  const TraceSizes& lengths = others.length.has_value() ? *others.length : sizes_of(trace);
  const std::vector<std::string> reserved = names.all();
  OnnxGraph graph(proto, net, reserved, others.open_length);
  for (std::size_t i = 0; i < trace.inputs.size(); ++i) {
    if (trace.inputs[i].defined()) graph.name(trace.inputs[i], names.inputs[i]);
  }
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    translate(graph, trace.calls[i], others.call(i));
  }
  for (std::size_t i = 0; i < trace.inputs.size(); ++i) {
    if (!trace.inputs[i].defined()) continue;
    describe(*proto.add_input(), names.inputs[i], trace.inputs[i],
             {other.inputs[i], lengths.inputs[i], others.open_length});
  }
  for (std::size_t i = 0; i < trace.outputs.size(); ++i) {
    if (!trace.outputs[i].defined()) continue;
    graph.finish(trace.outputs[i], names.outputs[i]);
    check_output(trace.outputs[i].shape(), other.outputs[i]);
    describe(*proto.add_output(), names.outputs[i], trace.outputs[i],
             {other.outputs[i], lengths.outputs[i], others.open_length});
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
                      const OtherTraces& others) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("mezzo");
  onnx::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOpset);
  model.mutable_graph()->set_name("mezzo");
  fill_graph(*model.mutable_graph(), net, names, trace, others);
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

namespace {

// Lengths to try. Both are shorter than the example, for a table of positions is sliced then, while
// all of it would be taken without a call. They differ by two, so that half a length is not the
// same number for both.
OpenLength open_length(const std::string& input, const Shape& example) {
  check_arg(example.rank() > 0, "export", "an example with an open length needs an axis: the ",
            "shape is ", example, ". Give that of a sequence");
  const std::int64_t traced = std::max<std::int64_t>(example[0] - 1, 4);
  return {input, traced, traced - 2};
}

}  // namespace

std::string serialize_onnx(nn::Module& net, const Shape& example, const OnnxOptions& options) {
  check_arg(options.input == DType::kF32 || options.input == DType::kI64, "export",
            "the input must be f32 or i64, not ", options.input);
  const Names names{{"input"}, {"output"}};
  OtherTraces others;
  Shape traced = example;
  if (options.open_length) {
    const OpenLength length = open_length(names.inputs[0], example);
    others.open_length = length;
    traced[0] = length.other;
    others.length = sizes_of(trace_batch(net, kBatch, traced, options.input));
    traced[0] = length.traced;
  }
  others.batch = sizes_of(trace_batch(net, kOtherBatch, traced, options.input));
  return serialize(net, names, trace_batch(net, kBatch, traced, options.input), others);
}

std::string serialize_onnx(nn::Module& net, const OnnxSignature& signature) {
  const std::vector<OnnxInput>& inputs = signature.inputs;
  Names names{.inputs = names_of_inputs(inputs), .outputs = {}};
  const OtherTraces others{.batch =
                               sizes_of(trace_forward(net, zero_batches(kOtherBatch, inputs)))};
  const TraceSizes& other = others.batch;
  const Trace trace = trace_forward(net, zero_batches(kBatch, inputs));
  check_arg(trace.outputs.size() == other.outputs.size(), "export", "the network has ",
            trace.outputs.size(), " results for a batch of ", kBatch, " and ", other.outputs.size(),
            " for one of ", kOtherBatch, ". Return as many for all sizes");
  names.outputs = names_of_results(trace.outputs, signature.results);
  return serialize(net, names, trace, others);
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

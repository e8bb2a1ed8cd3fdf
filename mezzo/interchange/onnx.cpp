#include "mezzo/interchange/onnx.h"

#include <set>

#include "mezzo/interchange/onnx_graph.h"
#include "mezzo/interchange/onnx_ops.h"
#include "mezzo/io/atomic_file.h"

namespace mezzo::interchange {
namespace {

constexpr std::int64_t kIrVersion = 8;
constexpr std::int64_t kOpset = 17;
constexpr const char* kInput = "input";
constexpr const char* kOutput = "output";

// A tensor of that dtype and shape but for the first axis, which is open.
void describe(onnx::ValueInfoProto& value, const char* name, const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  value.set_name(name);
  onnx::TypeProto::Tensor& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(tensor.dtype() == DType::kI64 ? onnx::TensorProto::INT64
                                                   : onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("N");
  for (std::size_t i = 1; i < shape.rank(); ++i) {
    type.mutable_shape()->add_dim()->set_dim_value(shape[i]);
  }
}

void translate(OnnxGraph& graph, const TracedCall& call) {
  graph.begin(call);
  const Translation* translation = find_translation(call.op->name);
  if (translation == nullptr) {
    graph.refuse("this operation has no translation to ONNX. There are ", translated_ops());
  }
  graph.name(call.outputs[0], translation->translate(graph, call, translation->type));
}

void fill_graph(onnx::GraphProto& proto, const nn::Module& net, const Trace& trace) {
  const std::int64_t batch = trace.input.shape()[0];
  OnnxGraph graph(proto, net, batch, {kInput, kOutput});
  graph.name(trace.input, kInput);
  for (const TracedCall& call : trace.calls) translate(graph, call);
  graph.finish(trace.output, kOutput);
  const Shape& output = trace.output.shape();
  check_arg(output.rank() > 0 && output[0] == batch, "export", "the network's output has shape ",
            output, " for a batch of ", batch, ". Its first axis must be that of the batch");
  describe(*proto.add_input(), kInput, trace.input);
  describe(*proto.add_output(), kOutput, trace.output);
}

// Of the traced batch, whose size is open in the file: not 1 nor that of an axis of the state, so
// that what only fits one size is refused when it is traced.
std::int64_t batch_size_for(const nn::Module& net) {
  std::set<std::int64_t> sizes;
  for (const NamedTensor& entry : net.state()) {
    sizes.insert(entry.tensor.shape().begin(), entry.tensor.shape().end());
  }
  std::int64_t size = 2;
  while (sizes.contains(size)) ++size;
  return size;
}

}  // namespace

std::string serialize_onnx(nn::Module& net, const Shape& example, const OnnxOptions& options) {
  check_arg(options.input == DType::kF32 || options.input == DType::kI64, "export",
            "the input must be f32 or i64, not ", options.input);
  Shape shape{batch_size_for(net)};
  for (const std::int64_t size : example) shape.push_back(size);
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("mezzo");
  onnx::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOpset);
  model.mutable_graph()->set_name("mezzo");
  fill_graph(*model.mutable_graph(), net, trace_forward(net, zeros(shape, options.input)));
  std::string bytes;
  if (!model.SerializeToString(&bytes)) {
    fail<UnsupportedError>("export", "the network is larger than an ONNX file can be: 2 GB");
  }
  return bytes;
}

void export_onnx(nn::Module& net, const Shape& example, const std::string& path,
                 const OnnxOptions& options) {
  const std::string bytes = serialize_onnx(net, example, options);
  io::write_file(path, std::as_bytes(std::span(bytes)), "export");
}

}  // namespace mezzo::interchange

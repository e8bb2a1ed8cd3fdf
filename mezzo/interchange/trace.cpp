#include "mezzo/interchange/trace.h"

#include <functional>
#include <map>

#include "mezzo/core/error.h"
#include "mezzo/nn/inference.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/call_listener.h"
#include "mezzo/ops/recurrent.h"

namespace mezzo::interchange {
namespace {

class Recorder final : public CallListener {
 public:
  explicit Recorder(std::vector<TracedCall>& calls) : calls_(calls) {}

  void on_finished(const FinishedCall& call) override {
    for (const Tensor* input : call.inputs) check_unchanged(*input);
    for (const Tensor& output : call.outputs) check_unchanged(output);
    TracedCall traced{.op = &call.op, .attrs = call.attrs, .path = nn::current_module_path()};
    for (const Tensor* input : call.inputs) traced.inputs.push_back(*input);
    traced.outputs.assign(call.outputs.begin(), call.outputs.end());
    calls_.push_back(std::move(traced));
  }

  // Changes in place are not calls: a tensor that is read after one holds what no call produced.
  void check_unchanged(const Tensor& tensor) {
    if (!tensor.defined()) return;
    const auto [seen, is_new] = versions_.emplace(tensor.storage().get(), tensor.version());
    if (is_new || seen->second == tensor.version()) return;
    const std::string path = nn::current_module_path();
    fail<UnsupportedError>("export", path.empty() ? "the network itself" : concat("`", path, "`"),
                           " reads ", tensor, ", which was changed in place since a call made or ",
                           "read it: ONNX has only calls. Make a new tensor");
  }

 private:
  std::vector<TracedCall>& calls_;
  std::map<const Storage*, std::uint64_t> versions_;  // of all tensors that calls produced or read
};

}  // namespace

namespace {

// `forward` runs the network, in inference mode and in f32, on the inputs.
Trace trace(nn::Module& net, const nn::Tensors& inputs,
            const std::function<nn::Tensors()>& forward) {
  const nn::Inference inference(net);
  // ONNX has no autocast regions: what they lower is f32 there.
  const nn::WithoutPrecisionHooks in_f32;
  const WithoutPrecisionHook outside;
  Trace trace{.inputs = inputs, .outputs = {}, .calls = {}};
  const StepByStep recurrent_layers;  // whose steps have no operator that takes given gates
  Recorder recorder(trace.calls);
  for (const Tensor& input : inputs) recorder.check_unchanged(input);
  const ListenToCalls listening(recorder);
  trace.outputs = forward();
  for (const Tensor& output : trace.outputs) recorder.check_unchanged(output);
  return trace;
}

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors) {
  std::vector<Shape> shapes;
  shapes.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    shapes.push_back(tensor.defined() ? tensor.shape() : Shape{});
  }
  return shapes;
}

}  // namespace

Trace trace_forward(nn::Module& net, const Tensor& input) {
  return trace(net, {input}, [&]() -> nn::Tensors { return {net(input)}; });
}

Trace trace_forward(nn::Module& net, const nn::Tensors& inputs) {
  return trace(net, inputs, [&] { return net(inputs); });
}

TraceSizes sizes_of(const Trace& trace) {
  TraceSizes sizes{
      .inputs = shapes_of(trace.inputs), .outputs = shapes_of(trace.outputs), .calls = {}};
  for (const TracedCall& call : trace.calls) {
    sizes.calls.push_back({call.op, call.attrs, shapes_of(call.inputs), shapes_of(call.outputs)});
  }
  return sizes;
}

}  // namespace mezzo::interchange

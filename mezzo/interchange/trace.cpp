#include "mezzo/interchange/trace.h"

#include "mezzo/nn/inference.h"
#include "mezzo/ops/call.h"
#include "mezzo/ops/call_listener.h"

namespace mezzo::interchange {
namespace {

class Recorder final : public CallListener {
 public:
  explicit Recorder(std::vector<TracedCall>& calls) : calls_(calls) {}

  void on_finished(const FinishedCall& call) override {
    TracedCall traced{.op = &call.op, .attrs = call.attrs, .path = nn::current_module_path()};
    for (const Tensor* input : call.inputs) traced.inputs.push_back(*input);
    traced.outputs.assign(call.outputs.begin(), call.outputs.end());
    calls_.push_back(std::move(traced));
  }

 private:
  std::vector<TracedCall>& calls_;
};

}  // namespace

Trace trace_forward(nn::Module& net, const Tensor& input) {
  const nn::Inference inference(net);
  // ONNX has no regions: what they lower is f32 there.
  const nn::WithoutPrecisionHooks in_f32;
  const WithoutPrecisionHook outside;
  Trace trace{.input = input, .output = {}, .calls = {}};
  Recorder recorder(trace.calls);
  const ListenToCalls listening(recorder);
  trace.output = net(input);
  return trace;
}

namespace {

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors) {
  std::vector<Shape> shapes;
  shapes.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    shapes.push_back(tensor.defined() ? tensor.shape() : Shape{});
  }
  return shapes;
}

}  // namespace

TraceSizes sizes_of(const Trace& trace) {
  TraceSizes sizes{.input = trace.input.shape(), .output = trace.output.shape(), .calls = {}};
  for (const TracedCall& call : trace.calls) {
    sizes.calls.push_back({call.op, call.attrs, shapes_of(call.inputs), shapes_of(call.outputs)});
  }
  return sizes;
}

}  // namespace mezzo::interchange

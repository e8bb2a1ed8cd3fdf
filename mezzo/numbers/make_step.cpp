#include "mezzo/numbers/make_step.h"

#include <unordered_map>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/forward.h"
#include "mezzo/amp/observed_calls.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::numbers {
namespace {

bool becomes_f64(const Tensor& tensor) {
  return tensor.defined() && is_floating(tensor.dtype()) && tensor.dtype() != DType::kF64;
}

Tensor in_f64(const Tensor& tensor) {
  return becomes_f64(tensor) ? cast(tensor.detach(), DType::kF64) : tensor;
}

bool has_f64_parameters(const nn::Module& net) {
  const std::vector<Tensor> parameters = net.parameters();
  return !parameters.empty() && parameters.front().dtype() == DType::kF64;
}

// amp::forward() gives the output to the loss in f32.
Tensor output_of(nn::Module& net, const amp::LossFunction& loss, const Batch& batch,
                 const std::optional<amp::Policy>& policy) {
  if (!has_f64_parameters(net)) return amp::forward_for(loss, net, batch.inputs, policy);
  if (batch.inputs.size() == 1) return net(batch.inputs.front());
  return net(batch.inputs).front();
}

std::vector<NamedTensor> gradients_of(const nn::Module& net) {
  std::vector<NamedTensor> gradients;
  for (const NamedTensor& parameter : net.named_parameters()) {
    const Tensor& gradient = parameter.tensor.grad();
    if (gradient.defined()) gradients.push_back({parameter.name, gradient});
  }
  return gradients;
}

}  // namespace

double make_step(nn::Module& net, const amp::LossFunction& loss, const Batch& batch,
                 amp::StepObserver& observer, const std::optional<amp::Policy>& policy) {
  check_arg(batch.labels.size() == 1, "make_step", "takes one tensor of labels, and the batch has ",
            batch.labels.size());
  net.zero_grad();
  const bool is_observed = observer.begin_step(1);
  std::vector<amp::StepObserver*> observers;
  if (is_observed) observers.push_back(&observer);
  if (is_observed) observer.begin_calls(batch);
  amp::TrainStepResult result;
  {
    amp::ObservedCalls observed(observers);
    const Tensor output = output_of(net, loss, batch, policy);
    const amp::NoAutocast outside;
    const Tensor value = loss(output, batch.labels.front());
    value.backward();
    observed.end();
    result.loss = value.item();
  }
  if (is_observed && observer.sees_gradients()) observer.on_gradients(gradients_of(net));
  if (is_observed) observer.end_step(result);
  net.zero_grad();
  return result.loss;
}

nn::Module& to_f64(nn::Module& net) {
  net.zero_grad();
  // Keeps the old tensors alive until the end, so that no new one gets the address of an old one.
  std::unordered_map<const TensorImpl*, std::pair<Tensor, Tensor>> replaced;
  const auto replace = [&](Tensor& tensor) {
    if (!becomes_f64(tensor)) return;
    const Tensor old = tensor;
    const auto found = replaced.find(old.impl());
    if (found != replaced.end()) {
      tensor = found->second.second;
      return;
    }
    tensor = in_f64(old);
    if (old.requires_grad()) tensor.set_requires_grad(true);
    replaced.emplace(old.impl(), std::pair(old, tensor));
  };
  net.apply([&](nn::Module& part) {
    for (const nn::Module::Member& member : part.own_parameters()) replace(*member.tensor);
    for (const nn::Module::Member& member : part.own_buffers()) replace(*member.tensor);
  });
  return net;
}

Batch to_f64(const Batch& batch) {
  Batch wide;
  for (const Tensor& input : batch.inputs) wide.inputs.push_back(in_f64(input));
  for (const Tensor& label : batch.labels) wide.labels.push_back(in_f64(label));
  return wide;
}

}  // namespace mezzo::numbers

#include "mezzo/amp/gradient_statistics.h"

#include <utility>

#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/update/multi_tensor.h"

namespace mezzo::amp {
namespace {

// Receives the gradients of one module's outputs.
class Observer {
 public:
  virtual void on_gradient(const Tensor& gradient) = 0;

 protected:
  ~Observer() = default;
};

struct ObserveAttrs {
  Observer* observer = nullptr;
  static constexpr std::tuple<> kFields{};
  bool operator==(const ObserveAttrs&) const = default;
};

// The identity, with an observer of its gradient. It is not in the registry: it computes nothing,
// and exists only while statistics are gathered.
const OpDef observe_gradient{
    .name = "observe_gradient",
    .doc = "x itself; its gradient is counted in the backward pass",
    .precision = {.reason = "changes no value"},
    .infer = nullptr,
    .view = [](const Tensor& x,
               const Attrs&) { return alias(x, x.shape(), x.strides(), x.offset()); },
    .backward =
        [](Backward& ctx) {
          Observer* observer = ctx.attrs<ObserveAttrs>().observer;
          do_host_work("observe_gradient", {&ctx.grad(), 1}, {},
                       [observer](std::span<const Tensor> gradient) {
                         return observer->on_gradient(gradient[0]), true;
                       });
          ctx.set(0, ctx.grad());
        },
};

}  // namespace

// Inserts the observing operation at the outputs of one module, in the steps that are counted.
class GradientStatistics::ActivationHook final : public nn::ForwardHook, public Observer {
 public:
  ActivationHook(GradientStatistics& statistics, std::size_t index)
      : statistics_(statistics), index_(index) {}

  nn::Tensors around(nn::Module&, const nn::Tensors& inputs, const Forward& forward) override {
    nn::Tensors results = forward(inputs);
    if (!statistics_.is_due() || !grad_enabled()) return results;
    for (Tensor& y : results) {
      if (!y.defined() || !y.requires_grad()) continue;
      y = call_one(observe_gradient, {&y}, ObserveAttrs{this});
    }
    return results;
  }

  void on_gradient(const Tensor& gradient) override {
    statistics_.count_activation(index_, gradient);
  }

 private:
  GradientStatistics& statistics_;
  std::size_t index_;
};

void GradientStatistics::Set::add_entry(const std::string& name, const Shape& shape) {
  latest.push_back({.name = name, .shape = shape});
  total.push_back(latest.back());
}

void GradientStatistics::Set::clear_latest() {
  for (GradientHistogram& histogram : latest) {
    histogram.counts = {};
    histogram.passes = 0;
  }
}

void GradientStatistics::Set::add(std::size_t i, const Tensor& gradient,
                                  const ExponentCounts& counts) {
  for (GradientHistogram* histogram : {&latest[i], &total[i]}) {
    histogram->shape = gradient.shape();
    histogram->counts += counts;
    ++histogram->passes;
  }
}

GradientStatistics::GradientStatistics(nn::Module& net, const Options& options)
    : options_(options) {
  check_arg(options.every >= 1, "gradient_statistics",
            "the number of steps between counts must be at least 1: ", options.every);
  for (const NamedTensor& parameter : net.named_parameters()) {
    index_of_.emplace(parameter.tensor.impl(), parameters_.latest.size());
    parameters_.add_entry(parameter.name, parameter.tensor.shape());
  }
  if (options.activations) observe_modules(net);
}

GradientStatistics::~GradientStatistics() {
  for (const auto& [module, hook] : hooks_) module->remove_forward_hook(hook.get());
}

void GradientStatistics::observe_modules(nn::Module& net) {
  for (const auto& [name, module] : net.named_modules()) {
    if (!module->children().empty()) continue;
    auto hook = std::make_shared<ActivationHook>(*this, activations_.latest.size());
    activations_.add_entry(name, Shape());
    module->add_forward_hook(hook);
    hooks_.emplace_back(module, std::move(hook));
  }
}

void GradientStatistics::begin_step(double scale) {
  check_arg(scale > 0, "gradient_statistics", "the loss scale must be positive: ", scale);
  due_ = step_++ % options_.every == 0;
  scale_ = scale;
  if (!due_) return;
  counted_ = false;
  parameters_.clear_latest();
  activations_.clear_latest();
}

std::optional<std::size_t> GradientStatistics::count(std::span<const Tensor> params,
                                                     double inv_scale) {
  std::vector<Tensor> gradients;
  gradients.reserve(params.size());
  for (const Tensor& param : params) {
    const Tensor& gradient = param.grad();
    gradients.push_back(!gradient.defined() || gradient.is_one_block() ? gradient
                                                                       : contiguous(gradient));
  }
  const auto counts = count_exponents(gradients, static_cast<float>(inv_scale));
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto known = index_of_.find(params[i].impl());
    if (!gradients[i].defined() || known == index_of_.end()) continue;
    if (parameters_.latest[known->second].passes > 0) continue;
    parameters_.add(known->second, gradients[i], counts[i]);
  }
  if (!std::exchange(counted_, true)) ++counted_steps_;
  return first_nonfinite(counts);
}

void GradientStatistics::count_activation(std::size_t module, const Tensor& gradient) {
  const NoGrad guard;
  const Tensor flat = gradient.is_one_block() ? gradient : contiguous(gradient);
  const auto counts = count_exponents({&flat, 1}, static_cast<float>(1 / scale_));
  activations_.add(module, flat, counts.front());
}

}  // namespace mezzo::amp

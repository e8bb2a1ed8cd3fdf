#include "mezzo/nn/recompute.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/call.h"
#include "mezzo/ops/capture_hook.h"
#include "mezzo/ops/grad_mode.h"
#include "mezzo/ops/node.h"

namespace mezzo::nn {
namespace {

constexpr const char* kOp = "recompute";

// The module whose forward pass is being run again on this thread, or null.
constinit thread_local const Module* running_again = nullptr;

// What a forward pass depended on besides its input.
struct ForwardState final : RefCounted {
  explicit ForwardState(Module& of)
      : module(of),
        training(of.is_training()),
        random(default_generator().position()),
        parameters(of.parameters()) {
    if (const PrecisionHook* hook = precision_hook()) precision = hook->context();
    for (const Tensor& parameter : parameters) versions.push_back(parameter.version());
  }

  Module& module;
  bool training;
  RandomPosition random;
  std::shared_ptr<const PrecisionContext> precision;  // null: nothing was cast
  std::vector<Tensor> parameters;
  std::vector<std::uint64_t> versions;
};

// The default random stream at another position, and back where it was in the end.
class RandomAt {
 public:
  explicit RandomAt(RandomPosition position) : before_(default_generator().position()) {
    default_generator().set_position(position);
  }
  ~RandomAt() { default_generator().set_position(before_); }
  RandomAt(const RandomAt&) = delete;
  RandomAt& operator=(const RandomAt&) = delete;

 private:
  RandomPosition before_;
};

// Undoes what happens to a module's buffers. Those that nothing happens to are not written: a tape
// may rely on their version.
class KeepBuffers {
 public:
  explicit KeepBuffers(const Module& module) {
    for (NamedTensor& buffer : module.named_buffers()) {
      const Tensor copy = empty(buffer.tensor.shape(), buffer.tensor.dtype(), Format::kContiguous,
                                buffer.tensor.device());
      copy_elements(buffer.tensor, copy);
      kept_.push_back({buffer.tensor, copy, buffer.tensor.version()});
    }
  }
  ~KeepBuffers() {
    for (const Kept& kept : kept_) {
      if (kept.buffer.version() != kept.version) copy_elements(kept.copy, kept.buffer);
    }
  }
  KeepBuffers(const KeepBuffers&) = delete;
  KeepBuffers& operator=(const KeepBuffers&) = delete;

 private:
  struct Kept {
    Tensor buffer;
    Tensor copy;
    std::uint64_t version;
  };
  std::vector<Kept> kept_;
};

class RunningAgain {
 public:
  explicit RunningAgain(const Module& module) : before_(std::exchange(running_again, &module)) {}
  ~RunningAgain() { running_again = before_; }
  RunningAgain(const RunningAgain&) = delete;
  RunningAgain& operator=(const RunningAgain&) = delete;

 private:
  const Module* before_;
};

void check_unchanged(const ForwardState& state) {
  check_arg(state.module.is_training() == state.training, kOp, "the module ", state.module.path(),
            " was switched between training and inference since its forward pass. Switch it after "
            "backward()");
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    check_arg(state.parameters[i].version() == state.versions[i], kOp, "parameter ", i, " of ",
              state.module.path(), " (", state.parameters[i],
              ") was changed since the forward pass. Change it after backward()");
  }
}

Tensor run_again(const ForwardState& state, const Tensor& x) {
  const RandomAt random(state.random);
  const WithoutHostWork without_host_work;  // running statistics have moved already
  const KeepBuffers buffers(state.module);  // what a module of the user does to them by itself
  const RunningAgain running(state.module);
  const GradMode recording(true);
  if (state.precision == nullptr) return state.module(x);
  Tensor y;
  state.precision->run([&] { y = state.module(x); });
  return y;
}

// Inputs of the node: x, then the parameters.
void backward(Backward& ctx) {
  check_arg(!ctx.create_graph(), kOp,
            "what is computed again cannot be differentiated twice. Call stop_recompute() first");
  Tensor x = ctx.input(0).detach();  // refused behind a backward pass, which frees the context, too
  const auto& state = static_cast<const ForwardState&>(ctx.context());
  check_unchanged(state);
  std::vector<Tensor> targets;
  std::vector<std::size_t> inputs;  // of the node, for each target
  if (ctx.needs(0)) {
    targets.push_back(x.set_requires_grad(true));
    inputs.push_back(0);
  }
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    if (!ctx.needs(i + 1)) continue;
    targets.push_back(state.parameters[i]);
    inputs.push_back(i + 1);
  }
  const Tensor y = run_again(state, x);
  const Tensor grad_y = ctx.take_grad();
  std::vector<Tensor> grads = grad({&y, 1}, targets, {&grad_y, 1});
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].defined()) ctx.set(inputs[i], std::move(grads[i]));
  }
}

const OpDef kRecompute{
    .name = kOp,
    .doc = "the forward pass of a module, which the backward pass runs again",
    .precision = {.reason = "the operations inside have rules of their own"},
    .saves = {.inputs = 0b1},
    .backward = backward,
};

class RecomputeHook final : public ForwardHook {
 public:
  Tensor around(Module& module, const Tensor& x, const Forward& forward) override {
    if (!grad_enabled() || running_again == &module) return forward(x);
    const auto state = make_ref<ForwardState>(module);
    std::vector<const Tensor*> inputs{&x};
    for (const Tensor& parameter : state->parameters) inputs.push_back(&parameter);
    if (!should_record(kRecompute, inputs)) return forward(x);
    // A handle of its own, for a module may give back its input.
    Tensor y = without_recording(forward, x).detach();
    record(kRecompute, {}, inputs, {&y, 1}, Ref<RefCounted>(state.get()));
    return y;
  }

 private:
  static Tensor without_recording(const Forward& forward, const Tensor& x) {
    const NoGrad no_grad;
    return forward(x);
  }
};

const ForwardHook* hook_of(const Module& module) {
  const auto& hooks = module.forward_hooks();
  const auto found = std::ranges::find_if(hooks, [](const auto& hook) {
    return dynamic_cast<const RecomputeHook*>(hook.get()) != nullptr;
  });
  return found != hooks.end() ? found->get() : nullptr;
}

}  // namespace

void recompute(Module& module) {
  check_arg(!is_recomputed(module), kOp, "the module ", module.path(), " is recomputed already");
  check_arg(!module.children().empty(), kOp, "the module ", module.path(),
            " has no children; recompute the block that it is a part of");
  module.add_forward_hook(std::make_shared<RecomputeHook>());
}

void stop_recompute(Module& module) {
  if (const ForwardHook* hook = hook_of(module)) module.remove_forward_hook(hook);
}

bool is_recomputed(const Module& module) { return hook_of(module) != nullptr; }

}  // namespace mezzo::nn

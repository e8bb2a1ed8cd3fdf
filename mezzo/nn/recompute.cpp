#include "mezzo/nn/recompute.h"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/core/scoped.h"
#include "mezzo/nn/called_with_one.h"
#include "mezzo/nn/keep_buffers.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/node.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::nn {
namespace {

constexpr const char* kOp = "recompute";

std::string name_of(const Module& module) {
  const std::string path = module.path();
  return path.empty() ? "the network itself" : concat("the module ", path);
}

// The module whose forward pass is being recomputed on this thread, or null.
constinit thread_local const Module* running_again = nullptr;

// Everything that a forward pass depended on besides its input.
struct ForwardState final : RefCounted {
  explicit ForwardState(Module& of)
      : module(of),
        with_one(is_called_with_one()),
        exact_sums(are_sums_exact()),
        random(default_generator().position()),
        parameters(of.parameters()) {
    if (const PrecisionHook* hook = precision_hook()) precision = hook->context();
    for (const Tensor& parameter : parameters) versions.push_back(parameter.version());
    of.apply([this](Module& part) { modes.push_back({&part, part.is_training()}); });
  }

  // Records the buffers at the end of the forward pass. Buffers of modules in training are results,
  // which other forward passes may update.
  void note_buffers() {
    for (const Mode& mode : modes) {
      if (mode.training) continue;
      for (const Module::Member& member : mode.module->own_buffers()) {
        buffers.push_back({mode.module, *member.tensor, member.tensor->version()});
      }
    }
  }

  struct Mode {
    Module* module;
    bool training;
  };
  struct Buffer {
    Module* module;
    Tensor tensor;
    std::uint64_t version;
  };

  Module& module;
  bool with_one;            // called with one tensor: forward() and forward_all() may differ
  std::vector<Mode> modes;  // modes of the module and all below it
  bool exact_sums;
  RandomPosition random;
  std::shared_ptr<const PrecisionContext> precision;  // null: nothing was cast
  std::vector<Tensor> parameters;
  std::vector<std::uint64_t> versions;
  std::vector<Buffer> buffers;
};

class RunningAgain {
 public:
  explicit RunningAgain(const Module& module) : scope_(running_again, &module) {}

 private:
  Scoped<const Module*> scope_;
};

void check_unchanged(const ForwardState& state) {
  for (const ForwardState::Mode& mode : state.modes) {
    check_arg(mode.module->is_training() == mode.training, kOp, name_of(*mode.module),
              " was switched between training and inference since its forward pass. Switch it "
              "after backward()");
  }
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    check_arg(state.parameters[i].version() == state.versions[i], kOp, "parameter ", i, " of ",
              name_of(state.module), " (", state.parameters[i],
              ") was changed since the forward pass. Change it after backward()");
  }
  for (const ForwardState::Buffer& buffer : state.buffers) {
    check_arg(buffer.tensor.version() == buffer.version, kOp, "a buffer of ",
              name_of(*buffer.module), " (", buffer.tensor,
              "), which is in inference mode, was changed since the forward pass. Change it after "
              "backward()");
  }
}

// An input of the module for the second run, and the leaf at which its gradient arrives.
struct Input {
  Tensor x;
  Tensor leaf;
};

// The 16-bit copy of an f32 tensor passes on its f32 gradients; a 16-bit leaf would round them. So
// for a copy, x becomes the copy of a new f32 leaf, of which only the shape matters. Otherwise x
// becomes a leaf itself, whose gradients are summed as at x: in f32 only if x is a leaf, too.
Input again(const Tensor& x, bool needs_grad, DType grad_dtype) {
  Tensor same = x.detach();
  if (!needs_grad) return {same, Tensor()};
  if (grad_dtype == x.dtype()) {
    same.set_requires_grad(true);
    same.require_autograd_meta().stands_for_result = !x.is_leaf() || !x.requires_grad();
    return {same, same};
  }
  Tensor leaf = expand(zeros({}, grad_dtype, Format::kContiguous, x.device()), x.shape());
  leaf.set_requires_grad(true);
  record_cast(leaf, same);
  return {same, leaf};
}

// All inputs for the second run.
class InputsAgain {
 public:
  // A tensor that is there several times has one leaf, so that its gradients are summed in the
  // order of the first run.
  explicit InputsAgain(Backward& ctx, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const Tensor kept = ctx.has_input(i) ? ctx.input(i) : Tensor();
      const auto same = std::ranges::find(kept_, kept.impl(), &Tensor::impl);
      const auto at = static_cast<std::size_t>(same - kept_.begin());
      const bool is_new = !kept.defined() || same == kept_.end();
      inputs_.push_back(!kept.defined() ? Input()
                        : is_new        ? again(kept, ctx.needs(i), ctx.grad_dtype(i))
                                        : inputs_[at]);
      kept_.push_back(kept);
      tensors_.push_back(inputs_.back().x);
      if (is_new && inputs_.back().leaf.defined()) leaves_.push_back({i, inputs_.back().leaf});
    }
  }

  struct Leaf {
    std::size_t input;  // of the node
    Tensor tensor;
  };
  const Tensors& tensors() const { return tensors_; }
  const std::vector<Leaf>& leaves() const { return leaves_; }

 private:
  Tensors kept_;
  std::vector<Input> inputs_;
  Tensors tensors_;
  std::vector<Leaf> leaves_;
};

// Results that depend on recorded tensors other than the inputs and the parameters would silently
// lose their gradients. The nodes from `first` on are those of the second run.
class CheckLeadsNowhereElse {
 public:
  CheckLeadsNowhereElse(const ForwardState& state, const InputsAgain& inputs, std::uint64_t first)
      : state_(state), inputs_(inputs), first_(first) {}

  void operator()(const Tensor& y) {
    if (Node* node = node_of(y)) follow(*node, y.dtype(), y.shape());
    while (!waiting_.empty()) {
      Node* node = waiting_.back();
      waiting_.pop_back();
      for (const NodeInput& input : node->inputs()) {
        if (input.node) follow(*input.node, input.dtype, input.shape);
        if (input.leaf) check(is_known(*input.leaf), input.dtype, input.shape);
      }
    }
  }

 private:
  void follow(Node& node, DType dtype, const Shape& shape) {
    check(node.sequence() >= first_, dtype, shape);
    if (seen_.insert(&node).second) waiting_.push_back(&node);
  }
  bool is_known(const TensorImpl& leaf) const {
    const auto is_it = [&](const Tensor& tensor) { return tensor.impl() == &leaf; };
    return std::ranges::any_of(inputs_.leaves(), is_it, &InputsAgain::Leaf::tensor) ||
           std::ranges::any_of(state_.parameters, is_it);
  }
  void check(bool is_known, DType dtype, const Shape& shape) const {
    check_arg(
        is_known, kOp, name_of(state_.module), " uses a tensor (", dtype, shape,
        ") that requires a gradient and is neither an input of it nor one of its parameters. Make "
        "it a parameter, or call stop_recompute() first");
  }

  const ForwardState& state_;
  const InputsAgain& inputs_;
  std::uint64_t first_;
  std::vector<Node*> waiting_;
  std::unordered_set<const Node*> seen_;
};

Tensors call_again(const ForwardState& state, const Tensors& inputs) {
  if (state.with_one) return {state.module(inputs.front())};
  return state.module(inputs);
}

Tensors run_again(const ForwardState& state, const Tensors& inputs) {
  const KeepRandomPosition random;
  default_generator().set_position(state.random);
  const WithoutHostWork without_host_work;  // running statistics have already been updated
  const KeepBuffers buffers(state.module);  // the module's own in-place changes of its buffers
  const RunningAgain running(state.module);
  const ExactSums exact(state.exact_sums);
  const GradMode recording(true);
  if (state.precision == nullptr) return call_again(state, inputs);
  Tensors results;
  state.precision->run([&] { results = call_again(state, inputs); });
  return results;
}

bool carries_gradients(const Tensor& result) {
  return result.defined() && is_floating(result.dtype());
}

// The results of the second run that have gradients, and these.
struct Seeds {
  Seeds(Backward& ctx, const Tensors& results) {
    std::size_t output = 0;  // of the node, which has those that carry gradients
    for (const Tensor& y : results) {
      if (!carries_gradients(y)) continue;
      Tensor grad = ctx.take_grad(output++);
      if (!grad.defined() || !y.requires_grad()) continue;
      tensors.push_back(y);
      grads.push_back(std::move(grad));
    }
  }

  Tensors tensors;
  Tensors grads;
};

// Inputs of the node: those of the module, followed by the parameters.
void backward(Backward& ctx) {
  check_arg(!ctx.create_graph(), kOp,
            "recomputed modules cannot be differentiated twice. Call stop_recompute() first");
  const auto& state = static_cast<const ForwardState&>(ctx.context());
  const std::size_t count = ctx.inputs() - state.parameters.size();
  check_unchanged(state);
  const std::uint64_t first = next_sequence();
  const InputsAgain inputs(ctx, count);
  Tensors targets;
  std::vector<std::size_t> places;  // the node's input of each target
  for (const InputsAgain::Leaf& leaf : inputs.leaves()) {
    targets.push_back(leaf.tensor);
    places.push_back(leaf.input);
  }
  for (std::size_t i = 0; i < state.parameters.size(); ++i) {
    if (!ctx.needs(count + i)) continue;
    targets.push_back(state.parameters[i]);
    places.push_back(count + i);
  }
  Tensors results = run_again(state, inputs.tensors());
  const Seeds seeds(ctx, results);
  results.clear();
  CheckLeadsNowhereElse check(state, inputs, first);
  for (const Tensor& y : seeds.tensors) check(y);
  // Sums stay f32 at leaves: more gradients may be added to them there.
  std::vector<Tensor> grads = grad(seeds.tensors, targets, seeds.grads, {.f32_sums = true});
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].defined()) ctx.set(places[i], std::move(grads[i]));
  }
}

const OpDef kRecompute{
    .name = kOp,
    .doc = "the forward pass of a module, which the backward pass runs again",
    .precision = {.reason = "the operations inside have their own rules"},
    .saves = {.inputs = kAllInputs},
    .backward = backward,
    .grad_outputs = (1U << kMaxOutputs) - 1,
    .sums_grads = true,
};

class RecomputeHook final : public ForwardHook {
 public:
  Tensors around(Module& module, const Tensors& inputs, const Forward& forward) override {
    if (!grad_enabled() || running_again == &module) return forward(inputs);
    const auto state = make_ref<ForwardState>(module);
    std::vector<const Tensor*> recorded;
    for (const Tensor& input : inputs) recorded.push_back(&input);
    for (const Tensor& parameter : state->parameters) recorded.push_back(&parameter);
    if (!should_record(kRecompute, recorded)) return forward(inputs);
    Tensors results = without_recording(forward, inputs);
    state->note_buffers();
    record_results(module, state, recorded, results);
    return results;
  }

 private:
  static Tensors without_recording(const Forward& forward, const Tensors& inputs) {
    const NoGrad no_grad;
    return forward(inputs);
  }

  static void record_results(const Module& module, const Ref<ForwardState>& state,
                             std::span<const Tensor* const> inputs, Tensors& results) {
    Tensors recorded;
    for (Tensor& result : results) {
      // New handles, because a module may return its input.
      if (carries_gradients(result)) recorded.push_back(result = result.detach());
    }
    check_arg(recorded.size() <= kMaxOutputs, kOp, name_of(module), " returns ", recorded.size(),
              " floating-point tensors. A recomputed module may return ", kMaxOutputs);
    record(kRecompute, {}, inputs, recorded, Ref<RefCounted>(state.get()));
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
  check_arg(!is_recomputed(module), kOp, name_of(module),
            " is recomputed already. Call recompute() once");
  check_arg(!module.children().empty(), kOp, name_of(module),
            " has no children. Recompute the block that it is a part of");
  // Outermost, so that the second run repeats what the other hooks do to the input and the result.
  module.add_outermost_forward_hook(std::make_shared<RecomputeHook>());
}

void stop_recompute(Module& module) {
  if (const ForwardHook* hook = hook_of(module)) module.remove_forward_hook(hook);
}

bool is_recomputed(const Module& module) { return hook_of(module) != nullptr; }

}  // namespace mezzo::nn

#include "mezzo/graph/capture.h"

#include <memory>
#include <unordered_map>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random_fills.h"
#include "mezzo/graph/captured_leaves.h"
#include "mezzo/graph/captured_paints.h"
#include "mezzo/graph/captured_random.h"
#include "mezzo/graph/placeholder.h"
#include "mezzo/nn/call_names.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/no_draw.h"

namespace mezzo::graph {
namespace {

constexpr const char* kCapture = "capture";

// While it exists, operands of a call are being cast.
class Preparing {
 public:
  explicit Preparing(bool& is_preparing) : is_preparing_(is_preparing) { is_preparing_ = true; }
  ~Preparing() { is_preparing_ = false; }
  Preparing(const Preparing&) = delete;
  Preparing& operator=(const Preparing&) = delete;

 private:
  bool& is_preparing_;
};

class Recorder final : public CaptureHook {
 public:
  explicit Recorder(const CaptureOptions& options)
      : options_(options), random_(kCapture), paints_(kCapture, options.paints) {
    for (const NamedTensor& entry : options.names) names_.emplace(entry.tensor.impl(), entry.name);
  }

  Tensor input(const Tensor& tensor, const std::string& name) {
    check_device(tensor, name);
    check_arg(
        !grad_enabled() || !tensor.requires_grad(), kCapture, "the input ", name, ", ", tensor,
        ", requires a gradient, which a captured step does not return. Pass detach(); if its "
        "gradient is wanted, make that a leaf in the step: in[0].detach().set_requires_grad(true)");
    const ValueSpec spec = ValueSpec::of(tensor);
    const ValueId value = program_.add_input(spec, name);
    Tensor stand = placeholder(spec, tensor.device(), concat("the input ", name), state_);
    know(stand, value);
    placeholder_of(stand)->is_input = true;
    return stand;
  }

  bool decides_precision() const override {
    // A backward pass casts nothing itself; whatever it recomputes has its own region.
    return phase() != Phase::kBackward && (options_.defer_casts || paints_.are_given());
  }

  bool notes_cast_to_same(const Tensor& x) override {
    if (!decides_precision() || !has_regions_ || placeholder_of(x) == nullptr) return false;
    if (!paints_.are_given() || is_preparing_) return true;
    // The dtypes are decided now, so this cast does nothing, as in eager mode: x keeps its layout
    // and the order in which its gradients are summed.
    paints_.take(ops::cast);
    return false;
  }

  bool records() const override { return options_.records; }

  void prepare(const OpDef& op, Operands& operands) override {
    if (is_preparing_) return;
    has_regions_ = has_regions_ || is_in_region();
    if (is_in_region()) check_is_not_refused(op);
    const Preparing preparing(is_preparing_);
    if (paints_.are_given()) apply_paint(op, operands);
    promote_inputs(op, operands);
  }

  Tensor make_result(const TensorSpec& spec, Device device) override {
    return placeholder(ValueSpec::dense(spec.shape, spec.dtype, spec.format), device, "a result",
                       state_);
  }

  void on_call(const FinishedCall& call, Inputs over) override {
    Node node = node_of(call);
    node.is_promotion = is_preparing_;
    take_paint(call.op);
    add_results(call, node);
    for (std::size_t i = 0; i < over.size(); ++i) {
      node.over.push_back(over[i] != nullptr ? value_of(*over[i]) : kNoValue);
    }
    program_.nodes.push_back(std::move(node));
  }

  void on_change(const FinishedCall& call) override {
    const Tensor& destination = call.outputs[0];
    Placeholder* contents = placeholder_of(destination);
    leaves_.check_not_from_before(destination.storage().get());
    check_arg(contents != nullptr && !contents->is_input, kCapture, call.op.name, " changes ",
              destination,
              " in place, which exists outside the step, or was created in it without an "
              "operation, as by zeros(), and is the same tensor in every run. Start from the "
              "result of an operation; change what exists outside there, or as host work");
    check_arg(destination.is_one_block(), kCapture, call.op.name,
              " changes a part of a tensor in place, ", destination,
              " with gaps between its elements. Change a copy of it, or the whole tensor");
    take_paint(call.op);
    // Regions do not affect in-place changes, so their operands have the same dtypes as in eager
    // mode.
    Node node = node_of(call);
    node.policy = nullptr;
    node.over = {value_of(destination)};
    contents->values.clear();
    add_results(call, node);
    program_.nodes.push_back(std::move(node));
  }

  void on_host_call(HostCall call) override {
    // Queued work and work in parts only read gradients.
    if (call.prepare == nullptr && call.by_leaf == nullptr) CapturedLeaves::separate(call.leaves);
    Node node{.phase = call.leaves.empty() ? phase() : Phase::kUpdate,
              .path = nn::current_module_path()};
    for (const Tensor& tensor : call.reads) node.inputs.push_back(value_of(tensor));
    for (const Tensor& leaf : call.leaves) {
      leaves_.note(leaf);
      if (leaf.grad().defined()) leaves_.note_gradient(leaf);
      node.inputs.push_back(leaf.grad().defined() ? value_of(leaf.grad()) : kNoValue);
    }
    node.host = call.name;
    node.work = std::move(call.work);
    node.prepare = std::move(call.prepare);
    node.by_leaf = std::move(call.by_leaf);
    node.time = call.time;
    node.leaves.assign(call.leaves.begin(), call.leaves.end());
    node.records_calls = grad_enabled();
    if (const PrecisionHook* hook = precision_hook()) node.region = hook->context();
    program_.nodes.push_back(std::move(node));
  }

  void on_zero_grad(std::span<const Tensor> leaves) override { leaves_.note_dropped(leaves); }

  // A forward pass that is recomputed in a backward pass is differentiated within it.
  void begin_backward() override { ++backward_depth_; }
  void end_backward() override { --backward_depth_; }

  // Returns the program, whose outputs are these tensors and the gradients of leaves.
  Program finish(std::span<const Tensor> outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      check_arg(outputs[i].defined(), kCapture, "result ", i,
                " of the step is undefined. Return tensors");
      program_.outputs.push_back(value_of(as_wanted(outputs[i], i)));
    }
    for (const Tensor& leaf : leaves_.with_gradient()) {
      leaves_.note_gradient(leaf);
      program_.leaves.push_back(leaf);
      program_.outputs.push_back(value_of(leaf.grad()));
    }
    check_states_unchanged();
    paints_.check_all_taken();
    for (const auto& [storage, known] : outside_) leaves_.check_not_from_before(storage);
    program_.adds_to = leaves_.added_to();
    program_.random_words = random_.words_drawn();
    program_.device = device_.value_or(kCpuDevice);
    is_finished_ = true;
    return std::move(program_);
  }

  // Undoes the side effects of the step.
  void clean_up() {
    leaves_.clean_up(!is_finished_);
    random_.clean_up();
    state_->is_over = true;
  }

  // To be called after clean_up(): true if something outside of the step holds tensors of the step.
  // The program itself holds the leaves that the step has created.
  bool is_kept() const { return state_->placeholders > leaves_.made_by_step(); }

 private:
  // Operations may call others that a region does not affect: see WithoutPrecisionHook.
  static bool is_in_region() { return amp::is_autocast_enabled() && precision_hook() != nullptr; }

  Phase phase() const { return backward_depth_ > 0 ? Phase::kBackward : Phase::kForward; }

  static void check_is_not_refused(const OpDef& op) {
    const amp::Policy& policy = amp::autocast_policy();
    if (amp::action_for(policy, op) == amp::CastAction::kRefuse) amp::refuse(policy, op);
  }

  // Casts a result to the dtype that its caller wants. This cast is not one of the step's calls.
  Tensor as_wanted(const Tensor& result, std::size_t i) {
    if (options_.result_dtypes == nullptr || i >= options_.result_dtypes->size()) return result;
    const DType dtype = (*options_.result_dtypes)[i].value_or(result.dtype());
    const amp::NoAutocast outside;
    const Preparing preparing(is_preparing_);
    return dtype != result.dtype() ? result.detach().astype(dtype) : result;
  }

  void apply_paint(const OpDef& op, Operands& operands) {
    const std::optional<DType> paint = paints_.of(op);
    if (paint.has_value()) amp::cast_inputs(op, operands, *paint);
    if (is_in_region()) amp::round_parameters(amp::autocast_policy(), op, operands);
  }

  // Casts belong to the call that needs them, and backward passes are not painted.
  void take_paint(const OpDef& op) {
    if (paints_.are_given() && !is_preparing_ && phase() != Phase::kBackward) paints_.take(op);
  }

  Node node_of(const FinishedCall& call) {
    Node node{
        .op = &call.op, .attrs = call.attrs, .phase = phase(), .path = nn::current_module_path()};
    for (const Tensor* input : call.inputs) {
      node.inputs.push_back(input->defined() ? value_of(*input) : kNoValue);
    }
    RandomPosition* position = node.attrs.random_position();
    if (position != nullptr && *position != kDrawsNothing) {
      random_.make_relative(call, *position);
      node.inputs.back() = random_start();
    }
    if (options_.defer_casts && is_in_region() && phase() != Phase::kBackward) {
      node.policy = std::make_shared<amp::Policy>(amp::autocast_policy());
    }
    return node;
  }

  ValueId random_start() {
    ValueId& start = program_.random_start;
    const Device device = device_.value_or(kCpuDevice);
    if (start != kNoValue) return start;
    return start = program_.add_state(to_tensor(random_.start()).to(device), "random_start");
  }

  void add_results(const FinishedCall& call, Node& node) {
    const CallId id = call_names_.name(call);
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      const ValueId value = program_.add_result(ValueSpec::of(call.outputs[i]));
      program_.values[value].made_by = {id, i};
      know(call.outputs[i], value);
      node.outputs.push_back(value);
    }
  }

  std::vector<Known>& known_in(const Tensor& tensor) {
    Placeholder* contents = placeholder_of(tensor);
    if (contents == nullptr) return outside_[tensor.storage().get()];
    check_arg(
        contents->is_of(*state_), kCapture, "the step uses ", tensor,
        ", which was kept from another call of it or of another step, whose capture computed "
        "nothing. Compute it in every call, or outside before the first; pass state as an input");
    return contents->values;
  }

  void know(const Tensor& tensor, ValueId value) {
    std::vector<Known>& known = known_in(tensor);
    std::erase_if(known, [&](const Known& k) { return is_of(k, tensor); });
    known.push_back({tensor.offset(), ValueSpec::of(tensor), value});
  }

  ValueId value_of(const Tensor& tensor) {
    for (const Known& known : known_in(tensor)) {
      if (is_of(known, tensor)) return refreshed(known.value, tensor);
    }
    check_arg(placeholder_of(tensor) == nullptr, kCapture, "the step reads ", tensor,
              ", which was changed in place since then through another view of its memory. Change "
              "and read it through one tensor; take views of it after the change");
    return add_state(tensor);
  }

  // Keeps the handle that takes part in differentiation, because it owns the 16-bit copies.
  ValueId refreshed(ValueId value, const Tensor& tensor) {
    Tensor& kept = program_.values[value].tensor;
    if (kept.defined() && tensor.is_leaf() && tensor.requires_grad() && !kept.requires_grad()) {
      kept = tensor;
      leaves_.note(tensor);
    }
    return value;
  }

  // Changes without an operation would happen once, during the capture, and never in a run.
  void check_states_unchanged() const {
    for (const auto& [value, version] : versions_) {
      const Value& state = program_.values[value];
      check_arg(state.tensor.version() == version, kCapture, state.name, ", ", state.tensor,
                ", which exists outside the step, is changed by the step itself. Do that outside, "
                "or as host work");
    }
  }

  ValueId add_state(const Tensor& tensor) {
    const auto named = names_.find(tensor.impl());
    const std::string name = named != names_.end() ? named->second : concat("const", unnamed_++);
    check_device(tensor, name);
    const ValueId value = program_.add_state(tensor, name);
    know(tensor, value);
    versions_.emplace_back(value, tensor.version());
    if (tensor.is_leaf() && tensor.requires_grad()) leaves_.note(tensor);
    return value;
  }

  // The first tensor determines the program's device.
  void check_device(const Tensor& tensor, const std::string& name) {
    if (!device_.has_value()) device_ = tensor.device();
    check_arg(tensor.device() == *device_, kCapture, name, ", ", tensor, ", is on ",
              tensor.device(), ", what the step used before is on ", *device_,
              ". A program runs on one device: use to()");
  }

  const CaptureOptions& options_;
  std::shared_ptr<CaptureState> state_ = std::make_shared<CaptureState>();
  CapturedRandom random_;
  Program program_;
  nn::CallNames call_names_;
  int backward_depth_ = 0;
  std::unordered_map<const TensorImpl*, std::string> names_;
  // Storages that exist outside of the step; the program's states keep them alive.
  std::unordered_map<const Storage*, std::vector<Known>> outside_;
  std::vector<std::pair<ValueId, std::uint64_t>> versions_;  // of states at their first use
  CapturedLeaves leaves_;
  CapturedPaints paints_;
  std::optional<Device> device_;
  int unnamed_ = 0;
  bool has_regions_ = false;   // a call so far was in a region
  bool is_preparing_ = false;  // operands of a call are being cast
  bool is_finished_ = false;
};

// While it exists, calls of this thread go to the recorder.
class Capturing {
 public:
  explicit Capturing(Recorder& recorder) : recorder_(recorder) {
    check_arg(capture_hook() == nullptr, kCapture,
              "a step is already being captured on this thread. Capture one after the other");
    set_capture_hook(&recorder);
  }
  ~Capturing() {
    set_capture_hook(nullptr);
    recorder_.clean_up();
  }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

 private:
  Recorder& recorder_;
  RefuseRandomFills no_fills_{
      "the step fills tensors with random numbers, which would be the same in every run. Pass them "
      "as inputs, or use dropout()"};
};

Program capture_once(const Step& step, std::span<const Tensor> inputs,
                     const CaptureOptions& options, bool& is_kept) {
  Recorder recorder(options);
  Program program;
  {
    const Capturing capturing(recorder);
    std::vector<Tensor> stands;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      stands.push_back(recorder.input(inputs[i], concat("input", i)));
    }
    program = recorder.finish(step(stands));
  }
  is_kept = recorder.is_kept();
  return program;
}

}  // namespace

Program capture(const Step& step, std::span<const Tensor> inputs, const CaptureOptions& options) {
  bool is_kept = false;
  Program program = capture_once(step, inputs, options, is_kept);
  // State that is passed from call to call would have its value at the capture in every run. A
  // second call detects that, because it reads tensors of the first one. Keeping a loss in a
  // variable of the caller is harmless.
  if (is_kept) capture_once(step, inputs, options, is_kept);
  return program;
}

}  // namespace mezzo::graph

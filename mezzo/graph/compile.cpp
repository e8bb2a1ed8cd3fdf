#include "mezzo/graph/compile.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/graph/passes/paint_precision.h"
#include "mezzo/graph/passes/passes.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/exact_sums.h"

namespace mezzo::graph {
namespace {

// The properties that determine a network's calls: modes, hooks, and the tensors of its parameters
// and buffers. It holds those tensors, so that no other gets the address of one.
struct NetworkMode {
  std::vector<bool> flags;
  std::vector<std::shared_ptr<nn::ForwardHook>> hooks;
  std::vector<Ref<TensorImpl>> tensors;

  void add(const nn::Module& module) {
    flags.push_back(module.is_training());
    for (const auto& hook : module.forward_hooks()) hooks.push_back(hook);
    for (const nn::Module::Member& parameter : module.own_parameters()) {
      tensors.push_back(parameter.tensor->impl_ref());
      flags.push_back(parameter.tensor->requires_grad());
    }
    for (const nn::Module::Member& buffer : module.own_buffers()) {
      tensors.push_back(buffer.tensor->impl_ref());
    }
    for (const nn::Module::Child& child : module.children()) add(*child.module);
  }
  bool operator==(const NetworkMode&) const = default;
};

// Names of several networks begin with `net0.`, `net1.`, ..., because names in a program are
// unique.
std::vector<NamedTensor> names_of(std::span<nn::Module* const> networks) {
  std::vector<NamedTensor> names;
  for (std::size_t i = 0; i < networks.size(); ++i) {
    const std::string prefix = networks.size() > 1 ? concat("net", i, ".") : "";
    for (const NamedTensor& entry : networks[i]->state()) {
      names.push_back({prefix + entry.name, entry.tensor});
    }
  }
  return names;
}

void append(PassLog& log, PassLog more) {
  log.insert(log.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

bool has_regions(const Program& program) {
  return std::ranges::any_of(program.nodes,
                             [](const Node& node) { return node.policy != nullptr; });
}

// The device of a step, as far as it is known before the capture.
Device device_of(std::span<const Tensor> inputs, std::span<nn::Module* const> networks) {
  if (!inputs.empty()) return inputs.front().device();
  for (const nn::Module* network : networks) {
    const std::vector<Tensor> parameters = network->parameters();
    if (!parameters.empty()) return parameters.front().device();
  }
  return kCpuDevice;
}

PassRunner runner_of(const CompileOptions& options) {
  std::vector<Pass> passes{kPaintPrecision, kFoldCasts, kCommonSubexpressions};
  passes.insert(passes.end(), kFusions.begin(), kFusions.end());
  passes.insert(passes.end(),
                {kDeadCode, kRecomputeCasts, kRecomputeNorms, kRecomputeConvs, kEarlyUpdates});
  return PassRunner(std::move(passes), options.passes);
}

bool is_on(const PassRunner& runner, const Pass& pass) {
  return std::ranges::any_of(runner.passes(), [&](const Pass& p) { return p.run == pass.run; });
}

// The dtypes that a step's results have in eager mode, as far as the forward part creates them.
std::vector<std::optional<DType>> result_dtypes(const Program& program, const Program& forward) {
  const std::vector<DType> dtypes = dtypes_of_autocast(forward);
  std::vector<std::optional<DType>> result;
  for (std::size_t i = 0; i + program.leaves.size() < program.outputs.size(); ++i) {
    const ValueId output = program.outputs[i];
    const bool is_made = std::ranges::find(forward.outputs, output) != forward.outputs.end();
    result.push_back(is_made ? std::optional(dtypes[output]) : std::nullopt);
  }
  return result;
}

// Captures the step with its calls painted. The first capture finds the regions. Only if there are
// any, the calls are painted and captured again with the casts that they need.
Program capture_painted(const Step& step, std::span<const Tensor> inputs, CaptureOptions options,
                        const PassRunner& runner, PassLog& log) {
  options.defer_casts = true;
  Program program = capture(step, inputs, options);
  Program forward = forward_part(program);
  if (!has_regions(forward)) return program;
  const std::vector<std::optional<DType>> results = result_dtypes(program, forward);
  append(log, runner.run_only(kPaintPrecision.name, forward));
  const std::vector<Paint> paints = paints_of(forward);
  options.defer_casts = false;
  options.paints = &paints;
  options.result_dtypes = &results;
  return capture(step, inputs, options);
}

Program capture_with_casts(const Step& step, std::span<const Tensor> inputs,
                           const CompileOptions& options, const PassRunner& runner, PassLog& log,
                           bool records) {
  const CaptureOptions capture_options{.names = names_of(options.networks), .records = records};
  return is_on(runner, kPaintPrecision)
             ? capture_painted(step, inputs, capture_options, runner, log)
             : capture(step, inputs, capture_options);
}

}  // namespace

Program capture_improved(const Step& step, std::span<const Tensor> inputs,
                         const CompileOptions& options, PassLog* log, bool records) {
  const PassRunner runner = runner_of(options);
  PassLog own_log;
  Program program = capture_with_casts(step, inputs, options, runner, own_log, records);
  for (const Pass& pass : runner.passes()) {
    // The program is painted already: passes before the second capture must not run after it.
    if (pass.run != paint_precision) append(own_log, runner.run_only(pass.name, program));
  }
  if (log != nullptr) *log = std::move(own_log);
  return program;
}

Program capture_as_called(const Step& step, std::span<const Tensor> inputs,
                          const CompileOptions& options) {
  PassLog log;
  return capture_with_casts(step, inputs, options, runner_of(options), log, false);
}

Program painted_forward(const Step& step, std::span<const Tensor> inputs,
                        const CompileOptions& options) {
  const PassRunner runner = runner_of(options);
  const CaptureOptions capture_options{.names = names_of(options.networks),
                                       .defer_casts = is_on(runner, kPaintPrecision)};
  Program forward = forward_part(capture(step, inputs, capture_options));
  runner.run_only(kPaintPrecision.name, forward);
  return forward;
}

namespace {

// The tensors that a program reads besides its inputs, and those that it updates.
std::vector<Tensor> tensors_between_runs(const Program& program) {
  std::map<const TensorImpl*, Tensor> found;
  for (const Value& value : program.values) {
    if (value.tensor.defined()) found.emplace(value.tensor.impl(), value.tensor);
  }
  for (const Node& node : program.nodes) {
    for (const Tensor& leaf : node.leaves) found.emplace(leaf.impl(), leaf);
  }
  std::vector<Tensor> tensors;
  tensors.reserve(found.size());
  for (const auto& [impl, tensor] : found) tensors.push_back(tensor);
  return tensors;
}

std::vector<bool> which_are_trained(const std::vector<Tensor>& tensors) {
  std::vector<bool> trained;
  trained.reserve(tensors.size());
  for (const Tensor& tensor : tensors) trained.push_back(tensor.requires_grad());
  return trained;
}

}  // namespace

// Everything that determines a program.
struct CompiledStep::Key {
  std::vector<ValueSpec> inputs{};
  std::vector<Device> devices{};
  bool records = false;
  bool casts = false;
  amp::Policy policy{};
  NetworkMode mode{};
  std::uint64_t more = 0;

  bool operator==(const Key&) const = default;
};

// A program, and which of the tensors between runs were trained at its capture. Tensors outside of
// the networks are only known after the capture.
struct CompiledStep::Entry {
  Entry(Key made_for, Program program, std::unique_ptr<WorkRecorder> recorder)
      : key(std::move(made_for)),
        tensors(tensors_between_runs(program)),
        trained(which_are_trained(tensors)),
        executable(std::move(program), std::move(recorder)) {}

  bool is_for(const Key& other) const {
    const auto is_as_before = [](const Tensor& tensor, bool was_trained) {
      return tensor.requires_grad() == was_trained;
    };
    // One with direct sums may be run anywhere, one without them not where they are asked for.
    if (are_sums_exact() && !is_exact) return false;
    return key == other && std::ranges::equal(tensors, trained, is_as_before);
  }

  Key key;
  bool is_exact = are_sums_exact();
  std::vector<Tensor> tensors;
  std::vector<bool> trained;
  Executable executable;
};

CompiledStep::CompiledStep(Step step, CompileOptions options)
    : step_(std::move(step)), options_(std::move(options)) {
  check_arg(step_ != nullptr && options_.most_programs >= 1, "compile",
            "a step is needed, and a limit of at least 1 program: ", options_.most_programs);
}
CompiledStep::CompiledStep(CompiledStep&&) noexcept = default;
CompiledStep& CompiledStep::operator=(CompiledStep&&) noexcept = default;
CompiledStep::~CompiledStep() = default;

CompiledStep::Key CompiledStep::key_of(std::span<const Tensor> inputs) const {
  Key key{.records = grad_enabled(), .casts = amp::is_autocast_enabled()};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_arg(inputs[i].defined(), "compile", "input ", i, " is undefined. Pass a tensor");
    key.inputs.push_back(ValueSpec::of(inputs[i]));
    key.devices.push_back(inputs[i].device());
  }
  if (key.casts) key.policy = amp::autocast_policy();
  for (const nn::Module* network : options_.networks) key.mode.add(*network);
  if (options_.mode) key.more = options_.mode();
  return key;
}

CompiledStep::Entry& CompiledStep::find_or_capture(std::span<const Tensor> inputs) {
  Key key = key_of(inputs);
  const auto found = std::ranges::find_if(
      entries_, [&](const std::unique_ptr<Entry>& entry) { return entry->is_for(key); });
  if (found != entries_.end()) {
    std::rotate(found, found + 1, entries_.end());
    return *entries_.back();
  }
  const Device device = device_of(inputs, options_.networks);
  std::unique_ptr<WorkRecorder> recorder = make_recorder(device, options_.record);
  const WithoutCallListener nothing_is_computed_yet;
  Program program = capture_improved(step_, inputs, options_, nullptr, recorder != nullptr);
  if (entries_.size() == options_.most_programs) entries_.erase(entries_.begin());
  entries_.push_back(
      std::make_unique<Entry>(std::move(key), std::move(program), std::move(recorder)));
  return *entries_.back();
}

std::vector<Tensor> CompiledStep::operator()(std::span<const Tensor> inputs) {
  check_arg(is_running_ != nullptr, "compile",
            "the step was moved to another one. Call that one instead");
  const OneRun run(*is_running_, "compile");
  Executable& executable = find_or_capture(inputs).executable;
  give_memory(executable);
  return executable.run(inputs);
}

void CompiledStep::release_memory() {
  if (is_running_ == nullptr) return;
  const OneRun run(*is_running_, "compile");
  take_memory();
}

// Programs run one at a time, so they share an arena that is large enough for the largest.
void CompiledStep::give_memory(Executable& next) {
  if (next.keeps_arena()) return;
  for (const auto& entry : entries_) {
    const Executable& other = entry->executable;
    if (&other == in_arena_ && &other != &next) other.clear_slots();
  }
  in_arena_ = &next;
  if (!arena_ || arena_->bytes() < next.memory().arena_bytes) {
    take_memory();
    arena_ = next.make_arena();
  }
  next.place_in(arena_);
}

void CompiledStep::take_memory() {
  for (const auto& entry : entries_) entry->executable.leave_arena();
  arena_ = {};
}

const Executable* CompiledStep::latest() const {
  return entries_.empty() ? nullptr : &entries_.back()->executable;
}

CompiledStep compile(Step step, CompileOptions options) {
  return CompiledStep(std::move(step), std::move(options));
}

}  // namespace mezzo::graph

#include "mezzo/graph/graph.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/ops/dispatcher/call_listener.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/step_in_parts.h"

namespace mezzo::graph {
namespace {

constexpr const char* kOp = "graph";

bool has_param(const optim::Optimizer& optimizer, const Tensor& param) {
  return std::ranges::any_of(optimizer.params(),
                             [&](const Tensor& p) { return p.impl() == param.impl(); });
}

void check_apart(const optim::Optimizer& before, const optim::Optimizer& added) {
  for (std::size_t i = 0; i < added.params().size(); ++i) {
    check_arg(!has_param(before, added.params()[i]), kOp, "parameter ", i, " (", added.params()[i],
              ") of the optimizer belongs to an optimizer that was added before. Give each its own "
              "parameters");
  }
}

bool has_gradient(const optim::Optimizer& optimizer) {
  return std::ranges::any_of(optimizer.params(),
                             [](const Tensor& param) { return param.grad().defined(); });
}

// Detects calls of modules that were not added to the graph: their changes would go unnoticed.
class CheckModules final : public CallListener {
 public:
  explicit CheckModules(std::span<nn::Module* const> networks) {
    for (nn::Module* network : networks) {
      for (const nn::Module::NamedModule& module : network->named_modules()) {
        known_.insert(module.module);
      }
    }
  }

  void on_finished(const FinishedCall& /*call*/) override {
    const nn::Module* module = nn::current_module();
    if (module == nullptr || known_.contains(module)) return;
    const std::string path = module->path();
    fail(kOp, "build() calls a module", path.empty() ? "" : concat(", `", path, "`,"),
         " of a network that was not added. Call add_module() in the graph's constructor");
  }

 private:
  std::unordered_set<const nn::Module*> known_;
};

}  // namespace

void GraphConfig::enable_amp(bool mode, DType dtype) {
  ++changes_;
  if (mode) {
    enable_amp({.lower = dtype});
  } else {
    amp_.reset();
  }
}

void GraphConfig::enable_amp(const amp::Policy& policy) {
  ++changes_;
  amp_ = policy;
}

void GraphConfig::disable_pass(std::string name) {
  ++changes_;
  passes_.disabled.push_back(std::move(name));
}

void GraphConfig::keep_programs(std::size_t most) {
  ++changes_;
  most_programs_ = most;
}

void GraphConfig::enable_recording(const RecordOptions& record) {
  ++changes_;
  record_ = record;
}

void GraphConfig::restore_buffers(bool mode) {
  ++changes_;
  restores_buffers_ = mode;
}

const Program& GraphBase::program() const {
  const Executable* latest = step_.has_value() ? step_->latest() : nullptr;
  check_arg(latest != nullptr, kOp, "there is no program yet. Call the graph once");
  return latest->program();
}

void GraphBase::add_module(nn::Module& net) {
  networks_.push_back(&net);
  step_.reset();
}

void GraphBase::add_optimizer(optim::Optimizer& optimizer, const AddOptimizerOptions& options) {
  check_arg(options.max_grad_norm.value_or(1) > 0, kOp,
            "max_grad_norm must be positive: ", options.max_grad_norm.value_or(0));
  for (const Trained& other : trained_) check_apart(*other.optimizer, optimizer);
  trained_.push_back({&optimizer, options});
  step_.reset();
}

void GraphBase::set_grad_scaler(amp::GradScaler& scaler) {
  scaler_ = &scaler;
  step_.reset();
}

void GraphBase::set_grad_scaler(amp::GradScaler&& scaler) {
  auto own = std::make_unique<amp::GradScaler>(std::move(scaler));
  set_grad_scaler(*own);
  own_scaler_ = std::move(own);
}

void GraphBase::backward(const Tensor& loss) {
  check_arg(trains(), kOp,
            "build() calls backward(), but there is nothing to update. Call add_optimizer() in the "
            "graph's constructor");
  has_backward_ = true;
  // The scale is not part of the region: in 16 bits the product would overflow.
  const amp::NoAutocast outside;
  (scaler_ != nullptr ? scaler_->scale(loss) : loss).backward();
}

CompiledStep& GraphBase::step() {
  if (step_.has_value() && changes_ == config.changes()) return *step_;
  changes_ = config.changes();
  step_ = compile([this](std::span<const Tensor> inputs) { return capture_step(inputs); },
                  {.networks = networks_,
                   .mode = [this] { return mode(); },
                   .passes = config.passes(),
                   .most_programs = config.most_programs(),
                   .record = config.record()});
  return *step_;
}

// The scaler's mode and the number of parameters, since groups may have been added.
std::uint64_t GraphBase::mode() {
  std::uint64_t params = 0;
  for (const Trained& trained : trained_) params += trained.optimizer->params().size();
  return params * (amp::GradScaler::kAllModes + 1) + scaler().mode();
}

std::vector<Tensor> GraphBase::run(std::span<const Tensor> inputs) {
  const OneRun one(is_running_, kOp);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_arg(inputs[i].defined(), kOp, "input ", i, " is undefined. Pass a tensor");
  }
  const amp::NoAutocast outside;
  const GradMode records(trains());
  CompiledStep& compiled = step();
  updates_.clear();
  drop_gradients();
  buffers_.begin();
  try {
    std::vector<Tensor> outputs = compiled(inputs);
    const auto overflowed = [](const GraphUpdate& update) { return update.step.found_inf; };
    buffers_.complete();
    if (std::ranges::any_of(updates_, overflowed)) buffers_.restore();
    return outputs;
  } catch (...) {
    give_up();
    throw;
  }
}

std::vector<Tensor> GraphBase::capture_step(std::span<const Tensor> inputs) {
  has_backward_ = false;
  const bool may_skip = trains() && scaler().is_enabled() && scaler().checks_gradients();
  if (config.restores_buffers() && may_skip) buffers_.take(networks_);
  std::vector<Tensor> outputs = build_watched(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_arg(outputs[i].defined(), kOp, "result ", i, " of build() is undefined. Return a tensor");
  }
  // Checked again, because groups may have been added to optimizers since.
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) check_apart(*trained_[j].optimizer, *trained_[i].optimizer);
  }
  if (trains()) note_update();
  return outputs;
}

std::vector<Tensor> GraphBase::build_watched(std::span<const Tensor> inputs) {
  CheckModules check(networks_);
  const ListenToCalls listening(check);
  const amp::Autocast region(config.amp().value_or(amp::Policy{}), config.amp().has_value());
  return build_any(inputs);
}

void GraphBase::check_gradients() const {
  check_arg(
      std::ranges::any_of(trained_, [](const Trained& t) { return has_gradient(*t.optimizer); }),
      kOp, "build() leaves no gradient for any optimizer. Call backward(loss) in it");
  const bool scales = scaler_ != nullptr && scaler_->is_enabled();
  check_arg(has_backward_ || !scales, kOp,
            "the loss is not scaled: build() has a backward pass that the graph does not know of. "
            "Call backward(loss) instead of loss.backward()");
}

void GraphBase::note_update() {
  check_gradients();
  if (queue_update() || note_update_by_leaf()) return drop_gradients();
  std::vector<Tensor> params;
  for (const Trained& trained : trained_) {
    params.insert(params.end(), trained.optimizer->params().begin(),
                  trained.optimizer->params().end());
  }
  do_host_work("update", {}, params, [this](std::span<const Tensor>) { return update(), true; });
  drop_gradients();
}

// If parts of the program are recorded, queues the update, too.
bool GraphBase::queue_update() {
  std::vector<amp::UpdateOnDevice::Player> players;
  for (const auto& [optimizer, options] : trained_) {
    players.push_back({.optimizer = optimizer, .max_grad_norm = options.max_grad_norm});
  }
  const auto tell = [this](const std::vector<amp::StepResult>& results,
                           const amp::UpdateOnDevice::Outcome& outcome) {
    updates_.resize(results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      updates_[i] = {.step = results[i], .grad_norm = outcome.grad_norms[i]};
    }
    scaler().update();
  };
  // This runs last: copies of buffers on devices are launched with the update, if not before, and
  // must be restored if a later step fails.
  return scaler().queue_steps(players, tell, [this] { buffers_.complete(); });
}

// Lets the update follow each gradient, where nothing needs to see the gradients before.
bool GraphBase::note_update_by_leaf() {
  const bool looks_first = scaler().is_enabled() || scaler().statistics() != nullptr;
  const auto can_follow = [](const Trained& trained) {
    return !trained.options.max_grad_norm.has_value() &&
           optim::StepInParts::fits(*trained.optimizer);
  };
  if (!captures_by_leaf() || looks_first || !std::ranges::all_of(trained_, can_follow)) {
    return false;
  }
  std::vector<optim::Optimizer*> optimizers;
  for (const Trained& trained : trained_) optimizers.push_back(trained.optimizer);
  const auto parts = std::make_shared<optim::StepInParts>(optimizers);
  const auto end = [this, parts] {
    updates_.clear();
    for (const bool stepped : parts->finish()) {
      GraphUpdate& update = updates_.emplace_back();
      update.step.stepped = stepped;
      update.step.nothing_to_do = !stepped;
    }
  };
  note_by_leaf("update", parts->params(),
               {.begin = [parts] { parts->begin(); },
                .some = [parts](std::span<const std::size_t> params) { parts->step(params); },
                .end = end,
                .changes = parts->state()});
  return true;
}

void GraphBase::update() {
  updates_.resize(trained_.size());
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const auto& [optimizer, options] = trained_[i];
    if (!options.max_grad_norm.has_value()) continue;
    if (scaler_ != nullptr) scaler_->unscale_(*optimizer);
    updates_[i].grad_norm = optim::clip_grad_norm(optimizer->params(), *options.max_grad_norm);
  }
  step_all();
}

void GraphBase::step_all() {
  std::vector<optim::Optimizer*> optimizers;
  for (const Trained& trained : trained_) optimizers.push_back(trained.optimizer);
  const std::vector<amp::StepResult> results = scaler().step_together(optimizers);
  for (std::size_t i = 0; i < results.size(); ++i) updates_[i].step = results[i];
  scaler().update();
}

void GraphBase::drop_gradients() const {
  if (!trains()) return;
  for (const Trained& trained : trained_) trained.optimizer->zero_grad();
  for (nn::Module* network : networks_) network->zero_grad();
}

void GraphBase::give_up() {
  buffers_.restore();
  updates_.clear();
  drop_gradients();
  if (scaler_ != nullptr) scaler_->discard();
}

}  // namespace mezzo::graph

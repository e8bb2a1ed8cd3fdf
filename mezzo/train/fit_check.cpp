// What fit() looks for before the first step, since it would come up hours later.
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/train/fit.h"

namespace mezzo::train {
namespace {

constexpr const char* kOp = "Model";

std::string in_examples(std::int64_t count) {
  return concat(count, count == 1 ? " example" : " examples");
}

// Looks at what batch norms that are going to be trained get, and finds those that would have one
// value per channel in training, of which no variance can be taken. They are told from the inside
// of an inference, which moves no running statistics.
class SingleValues final : public nn::ForwardHook {
 public:
  Tensor around(nn::Module& module, const Tensor& x, const Forward& forward) override {
    const auto& norm = dynamic_cast<const nn::BatchNorm&>(module);
    const std::int64_t channels = x.rank() >= 2 ? x.size(1) : 0;
    const std::int64_t values = channels > 0 ? x.numel() / channels : 0;
    if (values * distributed::process_count(norm.processes()) == 1 && found_.empty()) {
      found_ = module.path().empty() ? "the batch norm" : concat("the batch norm ", module.path());
    }
    return forward(x);
  }
  const std::string& found() const { return found_; }

 private:
  std::string found_;
};

// While it exists, the hook is on all batch norms that a training would train.
class OnTrainedNorms {
 public:
  OnTrainedNorms(nn::Module& net, std::shared_ptr<nn::ForwardHook> hook) : hook_(std::move(hook)) {
    const bool trains_all = !net.is_training();  // fit() puts it into training mode then
    for (const nn::Module::NamedModule& entry : net.named_modules()) {
      const bool is_norm = dynamic_cast<const nn::BatchNorm*>(entry.module) != nullptr;
      if (is_norm && (trains_all || entry.module->is_training())) norms_.push_back(entry.module);
    }
    for (nn::Module* norm : norms_) norm->add_forward_hook(hook_);
  }
  ~OnTrainedNorms() {
    for (nn::Module* norm : norms_) norm->remove_forward_hook(hook_.get());
  }
  OnTrainedNorms(const OnTrainedNorms&) = delete;
  OnTrainedNorms& operator=(const OnTrainedNorms&) = delete;

 private:
  std::shared_ptr<nn::ForwardHook> hook_;
  std::vector<nn::Module*> norms_;
};

// The smallest part that a step makes of the last batch, through network and loss.
void try_last_batch(Fit& fit, std::int64_t examples, const std::string& what) {
  const std::int64_t part = examples / fit.model.train_step().options().micro_batches;
  data::Batch batch;
  {
    const data::KeepPosition place(fit.loader);
    const std::int64_t epoch = fit.loader.position().epoch;
    fit.loader.seek({.epoch = epoch, .step = fit.state.steps_per_epoch - 1});
    fit.loader.next(batch);
  }
  check_batch(batch);
  const Device device = fit.model.net().device();
  const auto single = std::make_shared<SingleValues>();
  const OnTrainedNorms watched(fit.model.net(), single);
  try {
    fit.model.train_step().try_forward(slice(batch.images.to(device), 0, 0, part),
                                       slice(batch.labels.to(device), 0, 0, part));
  } catch (const Error&) {
    rethrow_with(concat(". This is ", what,
                        ", tried before the first step. drop_remainder leaves that batch out"));
  }
  check_arg(single->found().empty(), kOp, what, ": ", single->found(),
            " would have one value per channel there, of which it can take no variance. Use "
            "drop_remainder, or another batch size");
}

// The first batch is tried by the first step.
void check_last_batch(Fit& fit) {
  const FitState& state = fit.state;
  const std::int64_t examples = fit.loader.last_batch_size();
  const std::int64_t steps_to_last =
      state.steps_per_epoch - fit.loader.position().step % state.steps_per_epoch;
  const bool is_smaller = examples < fit.loader.order().batch_size;
  if (!is_smaller || state.total_steps - state.step < steps_to_last) return;
  const std::int64_t parts = fit.model.train_step().options().micro_batches;
  check_arg(examples >= parts, kOp, "the last batch of an epoch has ", in_examples(examples),
            ", and the step splits batches into ", parts,
            " micro-batches. Use drop_remainder, another batch size, or fewer micro-batches");
  if (steps_to_last == 1) return;
  const std::string what =
      parts == 1 ? concat("the last batch of an epoch, which has ", in_examples(examples))
                 : concat("a micro-batch of ", in_examples(examples / parts),
                          " of the last batch of an epoch, which has ", in_examples(examples));
  try_last_batch(fit, examples, what);
}

}  // namespace

void check_fit(Fit& fit) {
  const KeepRandomPosition random;
  distributed::ProcessGroup* const processes = fit.processes();
  std::exception_ptr failure;
  try {
    fit.each(&Callback::check);
    if (fit.has_work()) check_last_batch(fit);
  } catch (...) {
    if (processes == nullptr) throw;
    failure = std::current_exception();
  }
  // What is wrong in one process alone must not leave the others waiting.
  if (processes != nullptr) distributed::fail_together(*processes, kOp, failure);
  if (fit.has_work() && fit.state.has_validation) fit.model.check_eval(*fit.options.validation);
}

}  // namespace mezzo::train

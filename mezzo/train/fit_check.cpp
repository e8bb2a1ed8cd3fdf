// Checks that fit() makes before the first step, since the problems would only show hours later.
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/train/fit.h"

namespace mezzo::train {
namespace {

constexpr const char* kFitCheckOp = "Model";

std::string in_examples(std::int64_t count) {
  return concat(count, count == 1 ? " example" : " examples");
}

// Finds the batch norms, trained or not, that would have a single value per channel in training, of
// which no variance can be computed. It observes a forward pass in inference mode, which does not
// change running statistics.
class FindSingleValues final : public nn::ForwardHook {
 public:
  nn::Tensors around(nn::Module& module, const nn::Tensors& inputs,
                     const Forward& forward) override {
    const auto& norm = dynamic_cast<const nn::BatchNorm&>(module);
    const Tensor& x = inputs.front();
    const std::int64_t channels = x.rank() >= 2 ? x.size(1) : 0;
    const std::int64_t values = channels > 0 ? x.numel() / channels : 0;
    if (values * distributed::process_count(norm.processes()) == 1) found_.push_back(&module);
    return forward(inputs);
  }
  const std::vector<const nn::Module*>& found() const { return found_; }

 private:
  std::vector<const nn::Module*> found_;
};

// While it exists, the hook is on all batch norms.
class OnNorms {
 public:
  OnNorms(nn::Module& net, std::shared_ptr<nn::ForwardHook> hook) : hook_(std::move(hook)) {
    for (const nn::Module::NamedModule& entry : net.named_modules()) {
      if (dynamic_cast<const nn::BatchNorm*>(entry.module) != nullptr) {
        norms_.push_back(entry.module);
      }
    }
    for (nn::Module* norm : norms_) norm->add_forward_hook(hook_);
  }
  ~OnNorms() {
    for (nn::Module* norm : norms_) norm->remove_forward_hook(hook_.get());
  }
  OnNorms(const OnNorms&) = delete;
  OnNorms& operator=(const OnNorms&) = delete;

 private:
  std::shared_ptr<nn::ForwardHook> hook_;
  std::vector<nn::Module*> norms_;
};

// The size of the smallest part that a step makes of a batch of that many examples.
std::int64_t smallest_part(const Fit& fit, std::int64_t examples) {
  return examples / fit.model.train_step().options().micro_batches;
}

// `a batch`, or the part of it.
std::string part_of(const Fit& fit, std::int64_t examples, const std::string& batch) {
  const std::int64_t parts = fit.model.train_step().options().micro_batches;
  if (parts == 1) return batch;
  return concat("a micro-batch of ", in_examples(smallest_part(fit, examples)), " of ", batch);
}

data::Batch batch_of_step(Fit& fit, std::int64_t step) {
  const data::KeepPosition place(fit.loader);
  data::Batch batch;
  fit.loader.seek({.epoch = fit.loader.position().epoch, .step = step});
  fit.loader.next(batch);
  return batch;
}

// Runs the smallest part of a batch through network and loss.
void try_part(Fit& fit, const data::Batch& batch, std::int64_t examples) {
  const std::int64_t part = smallest_part(fit, examples);
  const Batch all = step_batch_of(batch).to(fit.model.net().device());
  fit.model.train_step().try_forward(all.slice(0, part));
}

// A loss may need outputs that a network only has in training. Then a batch of any size fails here,
// and the first step shows whether something is really wrong.
bool takes_full_batch(Fit& fit) {
  try {
    try_part(fit, batch_of_step(fit, 0), fit.loader.order().batch_size);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void try_last_batch(Fit& fit, std::int64_t examples, const std::string& what) {
  const data::Batch batch = batch_of_step(fit, fit.state.steps_per_epoch - 1);
  const auto single = std::make_shared<FindSingleValues>();
  const OnNorms watched(fit.model.net(), single);
  try {
    try_part(fit, batch, examples);
  } catch (const Error&) {
    if (takes_full_batch(fit)) {
      rethrow_with(concat(". This is ", what,
                          ", checked before the first step. drop_remainder leaves that batch out"));
    }
  }
  fit.single_values.push_back({what, "Use drop_remainder, or another batch size", single->found()});
}

// The first step tries the first batch, but its error would not mention micro-batches and batch
// norm.
void look_at_full_batch(Fit& fit) {
  const std::int64_t examples = fit.loader.order().batch_size;
  const bool is_full = fit.state.steps_per_epoch > 1 || fit.loader.last_batch_size() == examples;
  const std::int64_t parts = fit.model.train_step().options().micro_batches;
  if (!is_full || smallest_part(fit, examples) != 1) return;
  const data::Batch batch = batch_of_step(fit, 0);
  const auto single = std::make_shared<FindSingleValues>();
  const OnNorms watched(fit.model.net(), single);
  try {
    try_part(fit, batch, examples);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the first step says it
  }
  const std::string text =
      parts == 1 ? concat("a batch of ", in_examples(examples))
                 : concat("a batch of ", in_examples(examples), " in ", parts, " micro-batches");
  fit.single_values.push_back(
      {part_of(fit, examples, text),
       parts == 1 ? "Use larger batches" : "Use larger batches, or fewer micro-batches",
       single->found()});
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
  check_arg(examples >= parts, kFitCheckOp, "the last batch of an epoch has ",
            in_examples(examples), ", and the step splits batches into ", parts,
            " micro-batches. Use drop_remainder, another batch size, or fewer micro-batches");
  if (steps_to_last == 1) return;
  const std::string batch = concat("the last batch of an epoch, which has ", in_examples(examples));
  try_last_batch(fit, examples, part_of(fit, examples, batch));
}

// An error in one process alone must not leave the others waiting.
template <class Function>
void in_all(Fit& fit, const Function& check) {
  distributed::ProcessGroup* const processes = fit.processes();
  std::exception_ptr failure;
  try {
    check();
  } catch (...) {
    if (processes == nullptr) throw;
    failure = std::current_exception();
  }
  if (processes != nullptr) distributed::fail_together(*processes, kFitCheckOp, failure);
}

void check_norm(const nn::Module& norm, const SingleValues& single) {
  const std::string path = norm.path();
  check_arg(!norm.is_training(), kFitCheckOp, single.batch, ": the batch norm ", path,
            path.empty() ? "" : " ",
            "would have one value per channel there, which has no variance. ", single.advice);
}

}  // namespace

void check_fit(Fit& fit) {
  const KeepRandomPosition random;
  in_all(fit, [&] {
    fit.each(&Callback::check);
    if (!fit.has_work()) return;
    if (fit.state.step < fit.state.total_steps) look_at_full_batch(fit);
    check_last_batch(fit);
  });
  if (fit.has_work() && fit.state.has_validation) fit.model.check_eval(*fit.options.validation);
}

void check_begun(Fit& fit) {
  in_all(fit, [&] { fit.each(&Callback::after_train_begin); });
}

void check_norms(Fit& fit) {
  if (std::exchange(fit.norms_are_checked, true)) return;
  in_all(fit, [&] {
    for (const SingleValues& single : fit.single_values) {
      for (const nn::Module* norm : single.norms) check_norm(*norm, single);
    }
  });
}

}  // namespace mezzo::train

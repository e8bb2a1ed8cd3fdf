#include "mezzo/train/model.h"

#include <algorithm>
#include <utility>

#include "mezzo/nn/inference.h"
#include "mezzo/ops/cast.h"

namespace mezzo::train {
namespace {

// The loop of fit().
class Loop {
 public:
  Loop(Model& model, data::DataLoader& loader, const FitOptions& options)
      : model_(model), loader_(loader), options_(options), state_{.model = model} {
    state_.steps_per_epoch = loader.steps_per_epoch();
  }

  FitResult run(std::int64_t epochs) {
    go_to_next_epoch();
    const std::int64_t in_epoch = loader_.position().step;
    state_.total_steps = std::min(options_.steps, epochs * state_.steps_per_epoch - in_epoch);
    state_.step_in_epoch = in_epoch;
    state_.lr = model_.optimizer().lr();
    each(&Callback::on_train_begin);
    while (state_.step < state_.total_steps && !state_.stop) run_epoch();
    each(&Callback::on_train_end);
    result_.epochs = state_.epoch;
    result_.steps = state_.step;
    result_.stopped = state_.stop;
    result_.metrics = state_.metrics;
    return std::move(result_);
  }

 private:
  void each(void (Callback::*hook)(FitState&)) {
    for (Callback* callback : options_.callbacks) (callback->*hook)(state_);
  }

  // After an epoch's last batch the loader wants to be asked once more; then it stands at the next.
  void go_to_next_epoch() {
    data::Batch none;
    if (loader_.position().step == state_.steps_per_epoch) loader_.next(none);
  }

  void run_epoch() {
    ++state_.epoch;
    each(&Callback::on_epoch_begin);
    model_.net().train(true);
    for (data::Batch batch; state_.step < state_.total_steps && !state_.stop;) {
      if (!loader_.next(batch)) break;
      run_step(batch);
    }
    go_to_next_epoch();
    if (options_.validation != nullptr) state_.metrics = model_.eval(*options_.validation);
    each(&Callback::on_epoch_end);
    state_.step_in_epoch = 0;
  }

  void run_step(const data::Batch& batch) {
    if (!options_.lr.empty()) {
      const auto i = std::min(static_cast<std::size_t>(state_.step), options_.lr.size() - 1);
      model_.optimizer().set_lr(options_.lr[i]);
    }
    state_.lr = model_.optimizer().lr();
    ++state_.step;
    ++state_.step_in_epoch;
    each(&Callback::on_step_begin);
    state_.result = model_.train_step()(batch.images, batch.labels);
    result_.skipped_steps += state_.result.skipped ? 1 : 0;
    each(&Callback::on_step_end);
  }

  Model& model_;
  data::DataLoader& loader_;
  const FitOptions& options_;
  FitState state_;
  FitResult result_;
};

}  // namespace

Model::Model(nn::Module& net, amp::LossFunction loss, optim::Optimizer& optimizer,
             const ModelOptions& options)
    : loss_(loss), step_(amp::build_train_network(net, std::move(loss), optimizer, options.amp)) {
  for (const std::string& name : options.metrics) add_metric(make_metric(name));
}

void Model::add_metric(std::unique_ptr<Metric> metric) {
  const bool taken = std::ranges::any_of(
      metrics_, [&](const auto& other) { return other->name() == metric->name(); });
  check_arg(!taken, "Model", "there are two metrics called `", metric->name(), "`");
  metrics_.push_back(std::move(metric));
}

FitResult Model::fit(std::int64_t epochs, data::DataLoader& loader, const FitOptions& options) {
  check_arg(epochs >= 1 && options.steps >= 1, "Model",
            "fit() needs at least 1 epoch and 1 step: ", epochs, " and ", options.steps);
  return Loop(*this, loader, options).run(epochs);
}

std::map<std::string, double> Model::eval(data::DataLoader& loader) {
  const nn::Inference inference(net());
  for (const auto& metric : metrics_) metric->reset();
  loader.seek({});
  for (data::Batch batch; loader.next(batch);) {
    const Tensor output = amp::forward(net(), batch.images, step_.options().policy);
    const double loss = loss_(output, batch.labels).item();
    for (const auto& metric : metrics_) metric->update(output, batch.labels, loss);
  }
  std::map<std::string, double> values;
  for (const auto& metric : metrics_) values[metric->name()] = metric->value();
  return values;
}

Tensor Model::predict(const Tensor& input) {
  const nn::Inference inference(net());
  return amp::forward(net(), input, step_.options().policy);
}

}  // namespace mezzo::train

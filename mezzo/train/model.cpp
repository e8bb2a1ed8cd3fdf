#include "mezzo/train/model.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/distributed/average.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/nn/inference.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/train/fit.h"

namespace mezzo::train {

Model::Model(nn::Module& net, amp::LossFunction loss, optim::Optimizer& optimizer,
             const ModelOptions& options)
    : Model(net, amp::LossOfBatch::of(std::move(loss), net, options.amp.step.policy), optimizer,
            options) {}

Model::Model(nn::Module& net, const amp::LossOfBatch& loss, optim::Optimizer& optimizer,
             const ModelOptions& options)
    : step_(amp::build_train_network(net, loss, optimizer, options.amp)),
      loss_(loss.with_regions(net, options.amp.step.policy)) {
  add_metrics(options.metrics);
  if (options.graph) step_.set_execution(graph::captured(net));
}

Model::Model(amp::TrainStep step, amp::LossFunction eval_loss,
             const std::vector<std::string>& metrics)
    : step_(std::move(step)),
      loss_(amp::LossOfBatch::of(std::move(eval_loss), net(), step_.options().policy)) {
  check_arg(loss_ != nullptr, "Model", "the loss function of evaluation is null. Give one");
  add_metrics(metrics);
}

Model::Model(amp::TrainStep step, const amp::LossOfBatch& eval_loss,
             const std::vector<std::string>& metrics)
    : step_(std::move(step)), loss_(eval_loss.with_regions(net(), step_.options().policy)) {
  check_arg(loss_ != nullptr, "Model", "the loss function of evaluation is null. Give one");
  add_metrics(metrics);
}

void Model::add_metrics(const std::vector<std::string>& names) {
  for (const std::string& name : names) add_metric(make_metric(name, loss_.ignore_index()));
}

void Model::add_metric(std::unique_ptr<Metric> metric) {
  check_arg(metric != nullptr, "Model", "the metric is null. Make one");
  const bool taken = std::ranges::any_of(
      metrics_, [&](const auto& other) { return other->name() == metric->name(); });
  check_arg(!taken, "Model", "there are two metrics called `", metric->name(),
            "`. Use each name once");
  metrics_.push_back(std::move(metric));
}

const Metric& Model::metric(const std::string& name) const {
  const auto find = [&](const std::string& wanted) {
    return std::ranges::find(metrics_, wanted, [](const auto& metric) { return metric->name(); });
  };
  // A user's metric may have a name that is an alias of a built-in one.
  auto found = find(name);
  if (found == metrics_.end()) found = find(metric_name(name));
  check_arg(found != metrics_.end(), "Model", "has no metric `", name,
            "`. List it in ModelOptions, or call add_metric()");
  return **found;
}

FitResult Model::fit(std::int64_t epochs, data::BatchSource& loader, const FitOptions& options) {
  check_arg(epochs >= 1 && options.steps >= 1, "Model",
            "fit() needs at least 1 epoch and 1 step: ", epochs, " and ", options.steps);
  check_arg(options.validation_every >= 0, "Model",
            "validation_every must not be negative: ", options.validation_every);
  Fit fit(*this, loader, options);
  return run_fit(fit, epochs);
}

std::map<std::string, double> Model::eval(data::BatchSource& loader) {
  const nn::Inference inference(net());
  step_.release_memory();  // so that an evaluation in between needs no additional memory
  std::vector<Metric*> metrics;
  for (const auto& metric : metrics_) {
    metrics.push_back(metric.get());
    metric->reset();
  }
  const data::KeepPosition place(loader);  // the loader may be the one that is trained on
  loader.seek({});
  distributed::ProcessGroup* const processes = step_.options().processes;
  // In training, every process has its own running statistics.
  if (processes != nullptr) distributed::broadcast(*processes, net().named_buffers());
  std::exception_ptr failure;
  try {
    for (data::Batch batch; loader.next(batch);) evaluate_batch(batch, metrics);
  } catch (...) {
    if (processes == nullptr) throw;
    failure = std::current_exception();
  }
  // The first process must save the training even if the evaluation of another one fails.
  if (processes != nullptr) distributed::fail_together(*processes, "Model", failure);
  const bool has_part = loader.order().shard.count > 1;
  for (const auto& metric : metrics_) {
    if (processes != nullptr && has_part) metric->add_up(*processes);
  }
  std::map<std::string, double> values;
  for (const auto& metric : metrics_) values[metric->name()] = metric->value();
  return values;
}

namespace {

// The output that a metric reads, in f32.
Tensor output_for(const Metric& metric, const Batch& batch) {
  check_arg(batch.output.defined(), "Model", "the metric `", metric.name(),
            "` reads the network's output, which the loss does not give. Set Batch::output in the "
            "loss, or leave the metric out");
  return batch.output.astype(DType::kF32);
}

}  // namespace

void Model::evaluate_batch(const data::Batch& batch, std::span<Metric* const> metrics) {
  Batch taken = step_batch_of(batch).to(net().device());
  const amp::BatchLoss loss = loss_.of_batch(taken);
  // As in training: an Autocast region around the call applies to the network only.
  const amp::NoAutocast outside;
  // Metrics would take axis 1 for the classes, which for a language model are the tokens.
  const bool by_row = loss_.has_classes_last();
  const Tensor labels = by_row && batch.labels.defined() ? flatten(batch.labels) : batch.labels;
  Tensor output;
  for (Metric* metric : metrics) {
    if (metric->reads_output() && !output.defined()) {
      output = output_for(*metric, taken);
      if (by_row) output = flatten(output, 0, -2);
    }
    metric->update(metric->reads_output() ? output : Tensor(), labels, loss);
  }
}

Tensor Model::predict(const Tensor& input) {
  const nn::Inference inference(net());
  return amp::forward(net(), input.to(net().device()), step_.options().policy);
}

nn::Tensors Model::predict(const nn::Tensors& inputs) {
  const nn::Inference inference(net());
  const Batch batch = Batch{.inputs = inputs}.to(net().device());
  return amp::forward(net(), batch.inputs, step_.options().policy);
}

}  // namespace mezzo::train

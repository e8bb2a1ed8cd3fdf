#include "tests/unit/distributed/wide_training.h"

#include <utility>

#include "mezzo/amp/half_parameters.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::test {
namespace {

constexpr std::int64_t kWideExamples = 12;
constexpr std::int64_t kFeatures = 1024;
constexpr std::int64_t kClasses = 10;

std::unique_ptr<optim::Optimizer> adamw(std::vector<Tensor> params) {
  return std::make_unique<optim::AdamW>(std::move(params),
                                        optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1});
}

void set_weights(nn::Module& net) {
  Generator generator(3);
  for (const Tensor& param : net.parameters()) {
    copy_elements(randn(param.shape(), generator) * 0.05, param);
  }
}

// This process's part of the batch of a step.
struct Part {
  Part(int step, const distributed::ProcessGroup* group) {
    Generator generator(static_cast<std::uint64_t>(step));
    std::vector<std::int64_t> classes;
    for (std::int64_t i = 0; i < kWideExamples; ++i) classes.push_back((i * 7 + step) % kClasses);
    const Tensor all = randn({kWideExamples, kFeatures}, generator);
    const std::int64_t each = kWideExamples / distributed::process_count(group);
    const std::int64_t begin = group != nullptr ? group->rank() * each : 0;
    images = copy_of(slice(all, 0, begin, begin + each));
    labels = copy_of(slice(from_values(classes, {kWideExamples}), 0, begin, begin + each));
  }

  Tensor images;
  Tensor labels;
};

std::size_t bytes_of(const std::vector<NamedTensor>& state) {
  std::size_t bytes = 0;
  for (const NamedTensor& entry : state) bytes += entry.tensor.bytes();
  return bytes;
}

}  // namespace

WideNet::WideNet(std::int64_t hidden)
    : first_(kFeatures, hidden), second_(hidden, kFeatures), last_(kFeatures, kClasses) {
  add("first", first_);
  add("second", second_);
  add("last", last_);
}

Tensor WideNet::forward(const Tensor& x) { return last_(relu(second_(relu(first_(x))))); }

WideEnd train_wide(const WideKind& kind, distributed::ProcessGroup* group, const Spoil& spoil) {
  WideNet net(kind.hidden);
  set_weights(net);
  if (kind.params != DType::kF32) amp::half_parameters(net, kind.params);
  manual_seed(11);  // stochastic rounding is seeded from it
  const auto optimizer = (kind.optimizer ? kind.optimizer : adamw)(net.parameters());
  amp::TrainStepOptions options = kind.options;
  options.policy = amp::Policy{kind.level, kind.dtype};
  options.processes = group;
  amp::GradScaler scaler =
      kind.scale > 0 ? amp::GradScaler({.init_scale = kind.scale}) : amp::GradScaler({}, false);
  amp::TrainStep step(
      net, [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); }, *optimizer,
      std::move(scaler), std::move(options));
  if (kind.graph) step.set_execution(graph::captured(net));
  WideEnd end;
  for (int i = 0; i < kind.steps; ++i) {
    Part part(i, group);
    if (spoil) spoil(i, group != nullptr ? group->rank() : 0, part.images);
    const amp::TrainStepResult result = step(part.images, part.labels);
    end.losses.push_back(result.loss);
    end.scales.push_back(result.next_scale);
    end.skipped.push_back(result.skipped);
    end.first_bad.push_back(result.first_bad);
    if (result.grad_norm.has_value()) end.norms.push_back(*result.grad_norm);
  }
  for (const Tensor& param : net.parameters()) end.params.push_back(param.to_vector<double>());
  end.state_bytes = bytes_of(optimizer->state());
  if (group != nullptr) end.bytes_sent = group->bytes_sent();
  return end;
}

std::vector<WideEnd> train_wide_together(int processes, const WideKind& kind, const Spoil& spoil) {
  return results_of<WideEnd>(
      processes, [&](distributed::ProcessGroup& group) { return train_wide(kind, &group, spoil); });
}

}  // namespace mezzo::test

#include "mezzo/nn/batch_norm.h"

#include <cmath>

#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/dispatcher/capture_hook.h"

namespace mezzo::nn {
namespace {

Shape channel_shape(std::int64_t channels) {
  check_arg(channels > 0, "BatchNorm", "the number of channels must be positive, not ", channels);
  return {channels};
}

const BatchNormOptions& checked(const BatchNormOptions& options) {
  check_arg(options.momentum >= 0 && options.momentum <= 1, "BatchNorm",
            "momentum must be in [0, 1]: ", options.momentum);
  check_arg(options.eps >= 0 && std::isfinite(options.eps), "BatchNorm",
            "eps must be finite and not negative: ", options.eps);
  return options;
}

}  // namespace

BatchNorm::BatchNorm(std::int64_t channels, BatchNormOptions options)
    : options_(checked(options)),
      weight_(ones(channel_shape(channels))),
      bias_(zeros({channels})),
      running_mean_(zeros({channels})),
      running_var_(ones({channels})),
      num_batches_tracked_(zeros({}, DType::kI64)) {
  add_parameter("weight", weight_);
  add_parameter("bias", bias_);
  add_buffer("running_mean", running_mean_);
  add_buffer("running_var", running_var_);
  add_buffer("num_batches_tracked", num_batches_tracked_);
}

Tensor BatchNorm::forward(const Tensor& x) { return normalize(x, false, Tensor()); }

Tensor BatchNorm::forward_relu(const Tensor& x) {
  return run(x, [this](const Tensor& input) { return normalize(input, true, Tensor()); });
}

Tensor BatchNorm::forward_add_relu(const Tensor& x, const Tensor& residual) {
  return run(x, [&](const Tensor& input) { return normalize(input, true, residual); });
}

Tensor BatchNorm::normalize(const Tensor& x, bool relu, const Tensor& residual) {
  check_input(x);
  BatchNormResult result = batch_norm(x, weight_, bias_,
                                      {.training = is_training(),
                                       .eps = options_.eps,
                                       .relu = relu,
                                       .residual = residual,
                                       .running_mean = running_mean_,
                                       .running_var = running_var_,
                                       .processes = processes_});
  if (is_training()) {
    const std::int64_t count = x.numel() / x.size(1) * distributed::process_count(processes_);
    std::vector<Tensor> statistics{result.mean, result.var};
    // A recording holds the addresses of these.
    if (captures_for_recording()) {
      statistics.insert(statistics.end(), {running_mean_, running_var_});
    }
    do_queued_work(
        "batch_norm.track", statistics, {}, [this] { count_batch(); },
        [this, count](std::span<const Tensor> batch) {
          update_running_stats(running_mean_, running_var_, batch[0], batch[1], options_.momentum,
                               count);
        },
        HostWorkTime::kCanWait);
  }
  return std::move(result.y);
}

// A recording holds the change of the statistics, but neither their versions nor the counter.
void BatchNorm::count_batch() const {
  num_batches_tracked_.mutable_data<std::int64_t>()[0] += 1;
  running_mean_.bump_version();
  running_var_.bump_version();
}

std::int64_t convert_sync_batchnorm(Module& net, distributed::ProcessGroup& processes) {
  std::int64_t layers = 0;
  for (const Module::NamedModule& entry : net.named_modules()) {
    if (auto* const norm = dynamic_cast<BatchNorm*>(entry.module)) {
      norm->set_processes(&processes);
      ++layers;
    }
  }
  return layers;
}

void BatchNorm2d::check_input(const Tensor& x) const {
  check_arg(x.rank() == 4, "BatchNorm2d", "x must be [n, c, h, w], but is ", x,
            ". Use BatchNorm1d for [n, c]");
}

void BatchNorm1d::check_input(const Tensor& x) const {
  check_arg(x.rank() == 2, "BatchNorm1d", "x must be [n, c], but is ", x,
            ". Use BatchNorm2d for [n, c, h, w]");
}

}  // namespace mezzo::nn

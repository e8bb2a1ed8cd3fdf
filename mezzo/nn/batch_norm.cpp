#include "mezzo/nn/batch_norm.h"

#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/capture_hook.h"

namespace mezzo::nn {
namespace {

Shape channel_shape(std::int64_t channels) {
  check_arg(channels > 0, "BatchNorm", "the number of channels must be positive, not ", channels);
  return {channels};
}

}  // namespace

BatchNorm::BatchNorm(std::int64_t channels, BatchNormOptions options)
    : options_(options),
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
                                       .running_var = running_var_});
  if (is_training()) {
    const std::int64_t count = x.numel() / x.size(1);
    const Tensor statistics[] = {result.mean, result.var};
    const auto move_on = [this, count](std::span<const Tensor> batch) {
      track(batch[0], batch[1], count);
      return true;
    };
    do_host_work("batch_norm.track", statistics, {}, move_on, HostWorkTime::kCanWait);
  }
  return std::move(result.y);
}

void BatchNorm::track(const Tensor& mean, const Tensor& var, std::int64_t count) {
  update_running_stats(running_mean_, running_var_, mean, var, options_.momentum, count);
  num_batches_tracked_.mutable_data<std::int64_t>()[0] += 1;
}

void BatchNorm2d::check_input(const Tensor& x) const {
  check_arg(x.rank() == 4, "BatchNorm2d", "x must be [n, c, h, w], but is ", x);
}

void BatchNorm1d::check_input(const Tensor& x) const {
  check_arg(x.rank() == 2, "BatchNorm1d", "x must be [n, c], but is ", x);
}

}  // namespace mezzo::nn

#include "mezzo/amp/names/build_train_network.h"

#include <optional>
#include <utility>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/level.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/core/log.h"

namespace mezzo::amp {
namespace {

// The policy to set on the network; empty if the network stays as it is.
std::optional<Policy> policy_in_16_bits(Level level, DType dtype,
                                        const TrainNetworkOptions& options) {
  const bool casts = level == Level::kO2 || level == Level::kO3;
  const DType model_type = options.cast_model_type.value_or(casts ? dtype : DType::kF32);
  const bool keeps = options.keep_batchnorm_fp32.value_or(level == Level::kO2);
  // At O0 the dtype is not used.
  check_arg(level == Level::kO0 || is_lower(dtype), "build_train_network", "dtype must be ",
            lower_dtypes(), ", or e4m3 for products, it is ", options.dtype);
  check_arg(is_trainable(model_type), "build_train_network", "cast_model_type must be ",
            trainable_dtypes(), ", it is ", model_type);
  if (is_lower(model_type)) {
    return Policy{.level = keeps ? Level::kO2 : Level::kO3,
                  .lower = model_type,
                  .keep_batchnorm_fp32 = keeps};
  }
  if (level == Level::kO2 && !keeps) {
    return Policy{.level = Level::kO3, .lower = dtype, .keep_batchnorm_fp32 = false};
  }
  if (casts || level == Level::kO0) return std::nullopt;
  // At these levels normalisations stay in f32, whatever keep_batchnorm_fp32 says.
  return Policy{.level = level, .lower = dtype};
}

std::optional<Policy> policy_for(Level level, const TrainNetworkOptions& options) {
  const bool is_eight = options.dtype == DType::kE4m3;
  const DType dtype = is_eight ? dtype_beside(options.dtype) : options.dtype;
  std::optional<Policy> policy = policy_in_16_bits(level, dtype, options);
  if (is_eight && policy.has_value()) {
    policy->eight_bits = make_eight_bits(usual_recipe(options.scaling));
  }
  return policy;
}

// The dtype that the network will compute in: that of a part with a narrow range if there is one,
// since the scaling is for its gradients. The caller's region is not known here.
DType dtype_of(nn::Module& net, const std::optional<Policy>& to_be_set) {
  for (const nn::Module::NamedModule& part : net.named_modules()) {
    const std::optional<Policy> own = policy_of(*part.module);
    if (own.has_value() && has_narrow_range(own->dtype())) return own->dtype();
  }
  const std::optional<Policy> policy = to_be_set.has_value() ? to_be_set : policy_of(net);
  return policy.has_value() ? policy->dtype() : DType::kF32;
}

LossScaleManager manager_for(Level level, DType dtype, const TrainNetworkOptions& options) {
  if (options.loss_scale_manager.has_value()) return *options.loss_scale_manager;
  if (!has_narrow_range(dtype)) return {};
  if (level == Level::kO2) return DynamicLossScaleManager();
  logging::warn_once(concat(dtype, " at level ", name_of(level),
                            " without loss scaling, which is this level's default: gradients under "
                            "2^-24 are lost. Give a DynamicLossScaleManager"));
  return {};
}

}  // namespace

TrainStep build_train_network(nn::Module& net, LossFunction loss, optim::Optimizer& optimizer,
                              const TrainNetworkOptions& options) {
  return build_train_network(net, LossOfBatch::of(std::move(loss), net, options.step.policy),
                             optimizer, options);
}

TrainStep build_train_network(nn::Module& net, const LossOfBatch& loss, optim::Optimizer& optimizer,
                              const TrainNetworkOptions& options) {
  const Level level = level_named(options.level, "build_train_network");
  check_step_options(options.step);
  const std::optional<Policy> policy = policy_for(level, options);
  GradScaler scaler(manager_for(level, dtype_of(net, policy), options));
  if (policy.has_value()) set_policy(net, *policy);
  return {net, loss, optimizer, std::move(scaler), options.step};
}

}  // namespace mezzo::amp

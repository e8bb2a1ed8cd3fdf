// MindSpore's build_train_network(): a training step whose settings follow from a level.
#pragma once

#include <optional>
#include <string>

#include "mezzo/amp/names/loss_scale_manager.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/ops/scaling_recipe.h"

namespace mezzo::amp {

// Options that are not given follow from the level, as in MindSpore:
//
//   level  keep_batchnorm_fp32  cast_model_type  loss_scale_manager
//   O0     -                    -                none
//   O1     false                f32              none
//   O2     true                 dtype            DynamicLossScaleManager() for f16, else none
//   O3     false                dtype            none
//   auto   false                f32              none
//
// At O1 and auto normalisations are f32 whatever keep_batchnorm_fp32 says, as in MindSpore. O0
// leaves the network with the precision that was set on it before, unless cast_model_type says
// otherwise. To have a network in f32, use auto_mixed_precision(net, "O0"), or an O0 policy of the
// step for modules that have no setting of their own.
struct TrainNetworkOptions {
  std::string level = "O0";
  // The 16-bit dtype at levels that use one: f16, as in MindSpore, or bf16. Not used at O0.
  DType dtype = DType::kF16;
  // How e4m3 is scaled, if it is the dtype: products have it, and bf16 the rest.
  Scaling scaling = Scaling::kCurrent;
  // With a 16-bit cast_model_type a network computes everything in it (O3) or, with
  // keep_batchnorm_fp32, everything but normalisations and losses (O2), whatever the level. With
  // f32, O2 and O3 leave the network as it is; the exception is O2 with an explicit
  // keep_batchnorm_fp32 = false, which computes everything in `dtype`. The other levels are those
  // of auto_mixed_precision().
  std::optional<bool> keep_batchnorm_fp32{};
  std::optional<DType> cast_model_type{};
  // LossScaleManager() means no loss scaling.
  std::optional<LossScaleManager> loss_scale_manager{};
  TrainStepOptions step{};
};

// Sets the precision of the network (see module_precision.h) and returns the step that trains it.
// Output, labels and loss are f32. Throws ArgumentError for an unknown level, listing the valid
// ones, and for dtypes that do not fit. Warns if f16 would be trained without loss scaling by
// default, as at O1, auto and O3, and at O0 if the network was set to f16 before.
TrainStep build_train_network(nn::Module& net, LossFunction loss, optim::Optimizer& optimizer,
                              const TrainNetworkOptions& options = {});
TrainStep build_train_network(nn::Module& net, const LossOfBatch& loss, optim::Optimizer& optimizer,
                              const TrainNetworkOptions& options = {});

// The name that this class had first, after MindSpore's.
using TrainOneStepWithLossScale = TrainStep;

}  // namespace mezzo::amp

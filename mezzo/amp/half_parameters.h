// Parameters that are themselves stored in 16 bits, not only their copies in a computation. This
// halves the memory of the weights; other frameworks mean this by O3 and pure bf16 training.
//
//   amp::half_parameters(net, DType::kBf16);
//   amp::auto_mixed_precision(net, amp::Level::kO2, DType::kBf16);  // activations, too
//   optim::Lion optimizer(net.parameters(), {.param_update = optim::ParamUpdate::kKahan});
//
// The dtype of the parameters and that of the computation are set separately. Without an autocast
// region an operation computes in the widest dtype of its operands, which for f32 images is f32. A
// gradient of a 16-bit parameter has 16 bits, and may still need a loss scale. Sums of several
// gradients, over micro-batches or backward passes, are f32.
//
// Optimizers and other holders of parameters() keep the old tensors: create them afterwards.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::amp {

struct HalfParametersOptions {
  // Keeps scale and shift of batch, group and layer norm in f32. They take little memory, and they
  // are 1 and 0 plus small updates, which bf16 loses.
  bool keep_batchnorm_fp32 = true;
};

// Replaces the parameters of the module and of all below it by their values rounded to `dtype`
// (a lower precision), in place. Shared parameters stay shared and frozen ones frozen; gradients
// are dropped. Buffers stay as they are, so running statistics are always f32. A bias becomes
// 16-bit, too, and is still added to the f32 sum of products; normalisation reads a 16-bit scale
// and shift as f32. f64 parameters do not change. Returns the module.
//
// state() then has 16-bit tensors, and so has a safetensors file of it. load_state() converts, so
// each kind of network can load files of the other. An optimizer's f32 masters are part of its own
// state.
//
// Throws ArgumentError for other dtypes.
nn::Module& half_parameters(nn::Module& module, DType dtype,
                            const HalfParametersOptions& options = {});

// The inverse: 16-bit parameters become f32, with the same values.
nn::Module& full_parameters(nn::Module& module);

}  // namespace mezzo::amp

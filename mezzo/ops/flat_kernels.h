// The kernels behind multi_tensor.h and optimizer_steps.h, over checked tensors as flat memory.
// Implemented in mezzo/kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mezzo/core/dtype.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/exponent_counts.h"
#include "mezzo/ops/param_update.h"

namespace mezzo::flat {

struct Block {
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::kF32;
};

// The index of the first block with a value that is not finite, or the number of blocks.
std::size_t first_nonfinite(std::span<const Block> blocks);
// The same of the blocks multiplied by `factor`.
std::size_t scale(std::span<const Block> blocks, float factor);
double sum_of_squares(std::span<const Block> blocks);
void clamp(std::span<const Block> blocks, float limit);
// Adds the values of blocks[i], times `factor`, to counts[i].
void count_exponents(std::span<const Block> blocks, float factor, std::span<ExponentCounts> counts);

// What stands behind a block whose parameter has 16 bits. The block's own `param` is then the f32
// master copy if there is one, and its `grad` is not used.
struct HalfBlock {
  void* param = nullptr;  // null: the parameter is f32
  const void* grad = nullptr;
  void* compensation = nullptr;
  DType dtype = DType::kBf16;  // of param and compensation
  DType grad_dtype = DType::kF32;
  ParamUpdate rule = ParamUpdate::kMaster;
  RandomPosition random{};  // a whole number of blocks of four words into the stream
};

struct SgdBlock {
  float* param = nullptr;
  const float* grad = nullptr;
  float* momentum = nullptr;
  std::int64_t count = 0;
  float intake = 1;  // how much of the gradient the momentum takes in
  HalfBlock half{};
};
struct SgdFactors {
  float lr = 0;
  float momentum = 0;
  float weight_decay = 0;
  float inv_scale = 1;
  bool nesterov = false;
};
void sgd(std::span<const SgdBlock> blocks, const SgdFactors& factors);

struct AdamBlock {
  float* param = nullptr;
  const float* grad = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  std::int64_t count = 0;
  float step_size = 0;   // lr / (1 - beta1^step)
  float correction = 1;  // 1 / sqrt(1 - beta2^step)
  HalfBlock half{};
};
struct AdamFactors {
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float eps = 0;
  float weight_decay = 0;  // added to the gradient
  float shrink = 1;        // the parameter is multiplied by this
  float inv_scale = 1;
};
void adam(std::span<const AdamBlock> blocks, const AdamFactors& factors);

}  // namespace mezzo::flat

// The interface to the kernels that multi_tensor.h and optimizer_steps.h use. They work on checked
// tensors as flat memory; each kind of device has a table of them. Implemented in mezzo/kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "mezzo/core/device.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/fusion/result_rows.h"
#include "mezzo/ops/update/exponent_counts.h"
#include "mezzo/ops/update/packed_copy.h"
#include "mezzo/ops/update/param_update.h"

namespace mezzo::flat {

struct Block {
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::kF32;
};

// The additional data of a block whose parameter has 16 bits. The block's own `param` is then the
// f32 master copy if there is one, and its `grad` is not used.
struct HalfBlock {
  void* param = nullptr;  // null: the parameter is f32
  const void* grad = nullptr;
  void* compensation = nullptr;
  DType dtype = DType::kBf16;  // of param and compensation
  DType grad_dtype = DType::kF32;
  ParamUpdate rule = ParamUpdate::kMaster;
  RandomPosition random{};  // position in the stream, a multiple of four words
};

// The copies of an f32 parameter that the update renews.
struct CopyBlock {
  void* data = nullptr;  // the plain 16-bit copy; null: there is none
  DType dtype = DType::kBf16;
  PackedCopies packed{};  // on CPUs
};

// Momentum and moments below this, f32's smallest normal number, become zero. Where gradients stay
// zero, a value is multiplied by 0.9 again and again. It ends as a subnormal number that rounds to
// itself for ever, and CPUs take ten times as long for subnormal numbers. A parameter would move by
// a learning rate times this, which is negligible.
inline constexpr float kLeastState = std::numeric_limits<float>::min();

struct SgdBlock {
  float* param = nullptr;
  const float* grad = nullptr;
  float* momentum = nullptr;
  std::int64_t count = 0;
  float intake = 1;  // factor of the gradient in the momentum
  HalfBlock half{};
  CopyBlock copy{};
  const ResultRows* rows = nullptr;  // rows of a gradient that is computed as it is used, on CPUs
};
struct SgdFactors {
  float lr = 0;
  float momentum = 0;
  float weight_decay = 0;
  float inv_scale = 1;
  bool nesterov = false;
  float clip = 1;  // factor of gradients after unscaling
};

struct AdamBlock {
  float* param = nullptr;
  const float* grad = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  std::int64_t count = 0;
  float step_size = 0;   // lr / (1 - beta1^step)
  float correction = 1;  // 1 / sqrt(1 - beta2^step)
  HalfBlock half{};
  CopyBlock copy{};
  const ResultRows* rows = nullptr;  // rows of a gradient that is computed as it is used, on CPUs
};
struct AdamFactors {
  // The first moment is interpolated from the operand with the larger weight (the gradient if
  // `from_grad`) by the fraction `way` towards the other: 1 - beta1, or beta1. So nothing is lost
  // where one of them has all the weight.
  bool from_grad = false;
  float way = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float eps = 0;
  float least = 0;         // smaller moments become zero: see least_moment()
  float weight_decay = 0;  // added to the gradient
  float shrink = 1;        // the parameter is multiplied by this
  float inv_scale = 1;
  float clip = 1;  // factor of gradients after unscaling
};

// kLeastState, or 0 if epsilon is so small that the root of such a second moment, 1e-19, matters to
// the step: then all moments are kept.
constexpr float least_moment(double eps) { return eps >= 1e-10 ? kLeastState : 0; }

// The value of a flag while nothing bad was found: larger than every index, and made of equal
// bytes.
inline constexpr std::int32_t kNothingBad = 0x7f7f7f7f;

// Flags in device memory: the work is done if all of them are kNothingBad at that time.
struct Gate {
  const std::int32_t* flags = nullptr;
  std::size_t count = 0;
};

// Whether the work is done, for flags in host memory.
inline bool is_open_on_host(Gate gate) {
  return std::all_of(gate.flags, gate.flags + gate.count,
                     [](std::int32_t flag) { return flag == kNothingBad; });
}

// Clipping: gradients whose norm exceeds max_norm are scaled down to it.
struct Clip {
  const double* sum_of_squares = nullptr;  // of all gradients, in device memory; null: no clipping
  double max_norm = 0;
};

// The factor for gradients of that norm. Gradients that are not finite stay unchanged.
constexpr float clip_factor(double norm, double max_norm) {
  const bool is_longer = norm > max_norm && norm <= std::numeric_limits<double>::max();
  return is_longer ? static_cast<float>(max_norm / norm) : 1;
}

// A list of blocks in device memory. Work on it is the same in every launch of a recording: the
// list, which is read when the work is done, holds what differs.
template <class T>
struct Listed {
  const T* blocks = nullptr;
  std::size_t count = 0;
};

// Running statistics and the batch's statistics: mean and variance together, because starting work
// is what takes time.
struct Blend {
  float* to = nullptr;
  const float* from = nullptr;
  double take = 0;
};
using Blends = std::array<Blend, 2>;

// Blends element i of all pairs: see Kernels::blend.
template <class Pair>
constexpr void blend_one(const Pair& blends, std::int64_t i, double keep) {
  float blended[std::tuple_size_v<Blends>] = {};
  bool is_finite = true;
  for (std::size_t k = 0; k < std::size(blended); ++k) {
    const Blend& blend = blends[k];
    blended[k] = static_cast<float>(keep * blend.to[i] + blend.take * blend.from[i]);
    is_finite = is_finite && blended[k] - blended[k] == 0;
  }
  if (!is_finite) return;
  for (std::size_t k = 0; k < std::size(blended); ++k) blends[k].to[i] = blended[k];
}

// The kernels that these operations call. All memory is the device's. Kernels that return a result
// wait for it.
struct Kernels {
  const char* name = "";  // shown in profiles
  // The index of the first block with a value that is not finite, or the number of blocks.
  std::size_t (*first_nonfinite)(std::span<const Block> blocks) = nullptr;
  // Multiplies the blocks by `factor` and returns first_nonfinite() of the results.
  std::size_t (*scale)(std::span<const Block> blocks, float factor) = nullptr;
  double (*sum_of_squares)(std::span<const Block> blocks) = nullptr;
  void (*clamp)(std::span<const Block> blocks, float limit) = nullptr;
  // Adds the exponents of the values of blocks[i], times `factor`, to counts[i].
  void (*count_exponents)(std::span<const Block> blocks, float factor,
                          std::span<ExponentCounts> counts) = nullptr;
  void (*sgd)(std::span<const SgdBlock> blocks, const SgdFactors& factors) = nullptr;
  void (*adam)(std::span<const AdamBlock> blocks, const AdamFactors& factors) = nullptr;
  // The kernels from here to adam_if() are for recordings. note_faults() lowers *first_bad to 0 if
  // an earlier kernel has found a label or an index out of range, which becomes an exception in the
  // next call that waits.
  void (*note_faults)(Device device, std::int32_t* first_bad) = nullptr;
  // Lowers *first_bad to the index of the first block with a value that is not finite after
  // multiplication by *factor. It need not read the blocks if *squares, the result of
  // note_squares(), is known and finite.
  void (*note_nonfinite)(Device device, Listed<Block> blocks, const float* factor,
                         const double* squares, std::int32_t* first_bad) = nullptr;
  // Writes the sum of the squares of the values times *factor, each product rounded to f32.
  void (*note_squares)(Device device, Listed<Block> blocks, const float* factor,
                       double* sum) = nullptr;
  // sgd() and adam() behind a gate, with the clipping factor of `clip`.
  void (*sgd_if)(Device device, Gate gate, Clip clip, Listed<SgdBlock> blocks,
                 const SgdFactors* factors) = nullptr;
  void (*adam_if)(Device device, Gate gate, Clip clip, Listed<AdamBlock> blocks,
                  const AdamFactors* factors) = nullptr;
  // Each element of the f32 master copy that does not round to the parameter's element is replaced
  // by it.
  void (*refresh_master)(const void* param, DType dtype, float* master,
                         std::int64_t count) = nullptr;
  // to[i] = keep * to[i] + take * from[i] for all pairs, of `count` elements each, computed in f64.
  // Elements i of all pairs stay unchanged if one of them would become infinite or NaN.
  void (*blend)(Device device, const Blends& blends, std::int64_t count, double keep) = nullptr;
};

extern const Kernels kCpuKernels;

// The kernels of a device. Defined in the registry that CMake writes.
const Kernels& kernels_on(Device device);

}  // namespace mezzo::flat

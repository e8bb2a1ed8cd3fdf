// The kernels of multi_tensor.h, update_step.h and ops/delayed_scale.h, over checked tensors as
// flat memory, a table of them for each kind of device. Implemented in mezzo/kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "mezzo/core/device.h"
#include "mezzo/core/dtype.h"
#include "mezzo/ops/update/exponent_counts.h"
#include "mezzo/ops/update/update_block.h"
#include "mezzo/ops/update/update_rule.h"

namespace mezzo::flat {

struct Block {
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::kF32;
};

// What a flag holds until something bad is found: larger than every index, and of equal bytes.
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

// What an update waits for and reads when it is done.
struct Condition {
  Gate gate{};
  Clip clip{};
};

// A list of blocks that lies in the device's memory. Work on it is the same in every launch of a
// recording: what differs is in the list, which is read when the work is done.
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

// A scale of numbers of eight bits and the largest absolute values of its last steps: see
// ops/delayed_scale.h.
struct ScaleHistory {
  float* scale = nullptr;
  float* history = nullptr;
  std::int64_t count = 0;  // of the history
  float largest = 0;       // what the history's largest value shall become
};

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
  void (*update)(const UpdateRule& rule, std::span<const UpdateBlock> blocks,
                 const UpdateFactors& factors) = nullptr;
  // This and what follows up to update_if() is for recordings. Lowers *first_bad to 0 if a kernel
  // that came before has found a label or an index out of range, which is an exception of the next
  // call that waits.
  void (*note_faults)(Device device, std::int32_t* first_bad) = nullptr;
  // Lowers *first_bad to the index of the first block with a value that is not finite after
  // multiplication by *factor. It need not read the blocks if *squares, the result of
  // note_squares(), is known and finite.
  void (*note_nonfinite)(Device device, Listed<Block> blocks, const float* factor,
                         const double* squares, std::int32_t* first_bad) = nullptr;
  // Writes the sum of the squares of the values times *factor, each product rounded to f32.
  void (*note_squares)(Device device, Listed<Block> blocks, const float* factor,
                       double* sum) = nullptr;
  // update() behind a gate, with the factor of a clip.
  void (*update_if)(const UpdateRule& rule, Device device, const Condition& condition,
                    Listed<UpdateBlock> blocks, const UpdateFactors* factors) = nullptr;
  // Elements of the f32 master copy whose rounding is not the parameter's become the parameter's.
  void (*refresh_master)(const void* param, DType dtype, float* master,
                         std::int64_t count) = nullptr;
  // to[i] = keep * to[i] + take * from[i] for all pairs, of `count` elements each, computed in f64.
  // Elements i of all pairs stay unchanged if one of them would become infinite or NaN.
  void (*blend)(Device device, const Blends& blends, std::int64_t count, double keep) = nullptr;
  // Raises *largest to *seen, if that is finite.
  void (*note_largest)(Device device, const float* seen, float* largest) = nullptr;
  // advance() of ops/delayed_scale.h.
  void (*advance_scales)(Device device, std::span<const ScaleHistory> scales) = nullptr;
};

extern const Kernels kCpuKernels;

// The kernels of a device. Defined in the registry that CMake writes.
const Kernels& kernels_on(Device device);

}  // namespace mezzo::flat

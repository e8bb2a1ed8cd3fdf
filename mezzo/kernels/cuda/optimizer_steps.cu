// The update rules of SGD and Adam: a whole step in one pass over memory.
#include "mezzo/kernels/cuda/blocks.cuh"
#include "mezzo/kernels/cuda/flat.h"
#include "mezzo/kernels/cuda/philox.cuh"
#include "mezzo/kernels/cuda/rounding.cuh"

namespace mezzo::flat::cuda {
namespace {

constexpr unsigned kAcross = 128;
constexpr int kPack = 4;  // f32 elements in 16 bytes; most arrays are f32

// Calls f(T()) with the type of a 16-bit parameter.
template <class F>
__device__ inline void visit_half(DType dtype, const F& f) {
  if (dtype == DType::kBf16) {
    f(BFloat16());
  } else {
    f(Float16());
  }
}

// Reads parameters for the rule: f32 ones, the master copy's, or widened ones.
template <int N, class Block>
__device__ inline void read_param(const Block& b, std::int64_t i, float (&param)[N]) {
  const HalfBlock& half = b.half;
  if (half.param == nullptr || half.rule == ParamUpdate::kMaster) return load(b.param + i, param);
  visit_half(half.dtype, [&]<class T>(T) {
    load(static_cast<const T*>(half.param) + i, param);
    if (half.rule != ParamUpdate::kKahan) return;
    float rest[N];
    load(static_cast<const T*>(half.compensation) + i, rest);
#pragma unroll
    for (int k = 0; k < N; ++k) param[k] += rest[k];
  });
}

template <int N, class Block>
__device__ inline void read_grad(const Block& b, std::int64_t i, float (&grad)[N]) {
  const HalfBlock& half = b.half;
  if (half.param == nullptr) return load(b.grad + i, grad);
  if (half.grad_dtype == DType::kF32) return load(static_cast<const float*>(half.grad) + i, grad);
  visit_half(half.grad_dtype,
             [&]<class T>(T) { load(static_cast<const T*>(half.grad) + i, grad); });
}

// Rounds element i by 16-bit number i of the stream. A pack begins at a multiple of 4, and eight
// 16-bit numbers make a block of words, so all of a pack's numbers are in one block.
template <int N, class T>
__device__ inline void dither_all(const HalfBlock& half, std::int64_t i, float (&values)[N]) {
  const std::uint64_t first = 2 * half.random.offset + static_cast<std::uint64_t>(i);
  std::uint32_t words[4];
  kernels::cuda::philox_block(half.random.seed, first / 8, words);
  const auto skip = static_cast<int>(first % 8);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const int at = skip + k;
    std::uint32_t word = words[0];
    if (at / 2 == 1) word = words[1];
    if (at / 2 == 2) word = words[2];
    if (at / 2 == 3) word = words[3];
    values[k] = kernels::cuda::dither(values[k], at % 2 == 0 ? word & 0xffffU : word >> 16, T());
  }
}

template <int N, class Block>
__device__ inline void write_param(const Block& b, std::int64_t i, float (&param)[N]) {
  const HalfBlock& half = b.half;
  if (half.param == nullptr || half.rule == ParamUpdate::kMaster) store(param, b.param + i);
  if (b.copy.data != nullptr) {
    visit_half(b.copy.dtype, [&]<class T>(T) { store(param, static_cast<T*>(b.copy.data) + i); });
  }
  if (half.param == nullptr) return;
  visit_half(half.dtype, [&]<class T>(T) {
    if (half.rule == ParamUpdate::kStochastic) dither_all<N, T>(half, i, param);
    store(param, static_cast<T*>(half.param) + i);
    if (half.rule != ParamUpdate::kKahan) return;
#pragma unroll
    for (int k = 0; k < N; ++k) param[k] = kernels::cuda::cut_off<T>(param[k]);
    store(param, static_cast<T*>(half.compensation) + i);
  });
}

// Unscales in f32: in 16 bits, small gradients would underflow. Clipping follows with a rounding of
// its own, as if it were done before the step.
template <class Factors>
__device__ inline float true_gradient(const Factors& f, float grad) {
  return __fmul_rn(__fmul_rn(grad, f.inv_scale), f.clip);
}

// Adds weight decay. Without decay the parameter must not take part: 0 times an infinity is NaN.
template <class Factors>
__device__ inline float decayed(const Factors& f, float param, float grad) {
  return f.weight_decay != 0 ? fmaf(f.weight_decay, param, grad) : grad;
}

// Replaces values below `least` in magnitude by zero; NaN stays.
__device__ inline float at_least(float least, float v) { return fabsf(v) < least ? 0.0F : v; }

// The rules update single elements, in the CPU kernels' order of operations.
struct SgdRule {
  SgdFactors f;

  template <int N>
  __device__ void apply(const SgdBlock& b, std::int64_t i, float (&param)[N],
                        float (&grad)[N]) const {
    float momentum[N] = {};
    const bool has_momentum = f.momentum != 0;
    if (has_momentum) load(b.momentum + i, momentum);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float g = decayed(f, param[k], true_gradient(f, grad[k]));
      float direction = g;
      if (has_momentum) {
        momentum[k] = at_least(kLeastState, fmaf(f.momentum, momentum[k], b.intake * g));
        direction = f.nesterov ? fmaf(f.momentum, momentum[k], g) : momentum[k];
      }
      param[k] = fmaf(-f.lr, direction, param[k]);
    }
    if (has_momentum) store(momentum, b.momentum + i);
  }
  __device__ static bool is_aligned_for(const SgdBlock& b) { return is_aligned<kPack>(b.momentum); }
};

struct AdamRule {
  AdamFactors f;

  template <int N>
  __device__ void apply(const AdamBlock& b, std::int64_t i, float (&param)[N],
                        float (&grad)[N]) const {
    float avg[N];
    float avg_sq[N];
    load(b.exp_avg + i, avg);
    load(b.exp_avg_sq + i, avg_sq);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float g = decayed(f, param[k], true_gradient(f, grad[k]));
      // old + (g - old) * (1 - beta1) rounds once less than beta1 * old + (1 - beta1) * g, whose
      // two factors in f32 do not add up to 1.
      const float near = f.from_grad ? g : avg[k];
      const float far = f.from_grad ? avg[k] : g;
      avg[k] = at_least(f.least, fmaf(far - near, f.way, near));
      avg_sq[k] = at_least(f.least, fmaf(f.one_minus_beta2 * g, g, f.beta2 * avg_sq[k]));
      const float denominator = fmaf(sqrtf(avg_sq[k]), b.correction, f.eps);
      param[k] = fmaf(-b.step_size, avg[k] / denominator, param[k] * f.shrink);
    }
    store(avg, b.exp_avg + i);
    store(avg_sq, b.exp_avg_sq + i);
  }
  __device__ static bool is_aligned_for(const AdamBlock& b) {
    return is_aligned<kPack>(b.exp_avg) && is_aligned<kPack>(b.exp_avg_sq);
  }
};

template <int N, class Block, class Rule>
__device__ inline void update(const Block& b, const Rule& rule, std::int64_t i) {
  float param[N];
  float grad[N];
  read_param(b, i, param);
  read_grad(b, i, grad);
  rule.apply(b, i, param, grad);
  write_param(b, i, param);
}

template <int kBytes>
__device__ inline bool is_multiple(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % kBytes == 0;
}

// True if all of a block's memory can be read in packs.
template <class Rule, class Block>
__device__ inline bool takes_packs(const Block& b) {
  const HalfBlock& half = b.half;
  const bool wide_grad = half.grad_dtype == DType::kF32;
  return is_aligned<kPack>(b.param) && is_aligned<kPack>(b.grad) && Rule::is_aligned_for(b) &&
         is_multiple<8>(half.param) && is_multiple<8>(half.compensation) &&
         is_multiple<8>(b.copy.data) &&
         (wide_grad ? is_multiple<16>(half.grad) : is_multiple<8>(half.grad));
}

// Updates one block on the threads of a row of the grid.
template <class Block, class Rule>
__device__ inline void update_block(const Block& b, const Rule& rule) {
  const std::int64_t packed = takes_packs<Rule>(b) ? b.count / kPack * kPack : 0;
  for (std::int64_t i = grid_first() * kPack; i < packed; i += grid_step() * kPack) {
    update<kPack>(b, rule, i);
  }
  for (std::int64_t i = packed + grid_first(); i < b.count; i += grid_step()) {
    update<1>(b, rule, i);
  }
}

template <class Block, class Rule>
__global__ void update_kernel(Batch<Block> batch, Rule rule) {
  update_block(batch.blocks[blockIdx.y], rule);
}

// The memory of some parameter; null if none has an element.
template <class Block>
const void* memory_of(std::span<const Block> blocks) {
  for (const Block& block : blocks) {
    const void* memory = block.param != nullptr ? block.param : block.half.param;
    if (memory != nullptr) return memory;
  }
  return nullptr;
}

template <class Block, class Rule>
void run(std::span<const Block> blocks, const Rule& rule) {
  const void* memory = memory_of(blocks);
  if (memory == nullptr) return;
  const Launch launch(device_of(memory));
  for_batches(blocks, kAcross, [&](const Batch<Block>& batch, dim3 grid) {
    update_kernel<<<grid, kThreads, 0, launch.stream()>>>(batch, rule);
  });
}

__device__ inline bool is_open(const Gate& gate) {
  for (std::size_t i = 0; i < gate.count; ++i) {
    if (gate.flags[i] != kNothingBad) return false;
  }
  return true;
}

// Updates a list that is in the GPU's memory, if the gate is open. A closed gate costs only the
// kernel's launch.
template <class Rule, class Block, class Factors>
__global__ void gated_update_kernel(Gate gate, Clip clip, Listed<Block> list, std::size_t first,
                                    const Factors* factors) {
  if (!is_open(gate)) return;
  const Block block =
      list.blocks[first + blockIdx.y];  // read once, since the stores could overlap the list
  Rule rule{*factors};
  if (clip.sum_of_squares != nullptr) {
    rule.f.clip = clip_factor(sqrt(*clip.sum_of_squares), clip.max_norm);
  }
  update_block(block, rule);
}

template <class Rule, class Block, class Factors>
void run_if(Device device, const Gate& gate, const Clip& clip, Listed<Block> list,
            const Factors* factors) {
  const Launch launch(device);
  for_rows(list.count, kAcross, [&](std::size_t first, dim3 grid) {
    gated_update_kernel<Rule>
        <<<grid, kThreads, 0, launch.stream()>>>(gate, clip, list, first, factors);
  });
}

}  // namespace

void sgd(std::span<const SgdBlock> blocks, const SgdFactors& factors) {
  run(blocks, SgdRule{factors});
}
void adam(std::span<const AdamBlock> blocks, const AdamFactors& factors) {
  run(blocks, AdamRule{factors});
}

void sgd_if(Device device, Gate gate, Clip clip, Listed<SgdBlock> blocks,
            const SgdFactors* factors) {
  run_if<SgdRule>(device, gate, clip, blocks, factors);
}
void adam_if(Device device, Gate gate, Clip clip, Listed<AdamBlock> blocks,
             const AdamFactors* factors) {
  run_if<AdamRule>(device, gate, clip, blocks, factors);
}

}  // namespace mezzo::flat::cuda

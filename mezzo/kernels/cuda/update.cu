// Updates of parameters by the rules of ops/update/rules: all of a step in one pass over memory.
#include <cstring>

#include "mezzo/kernels/cuda/blocks.cuh"
#include "mezzo/kernels/cuda/flat.h"
#include "mezzo/kernels/cuda/narrow_state.cuh"
#include "mezzo/kernels/cuda/philox.cuh"
#include "mezzo/kernels/cuda/rounding.cuh"

namespace mezzo::flat::cuda {
namespace {

constexpr unsigned kAcross = 128;
constexpr int kPack = 4;  // f32 numbers in 16 bytes, of which there are most

// Calls f(T()) with the type of a 16-bit parameter.
template <class F>
__device__ inline void visit_half(DType dtype, const F& f) {
  if (dtype == DType::kBf16) {
    f(BFloat16());
  } else {
    f(Float16());
  }
}

// Parameters as the rule takes them: f32, those of a master copy, or widened.
template <int N>
__device__ inline void read_param(const UpdateBlock& b, std::int64_t i, float (&param)[N]) {
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

template <int N>
__device__ inline void read_grad(const UpdateBlock& b, std::int64_t i, float (&grad)[N]) {
  const HalfBlock& half = b.half;
  if (half.param == nullptr) return load(b.grad + i, grad);
  if (half.grad_dtype == DType::kF32) return load(static_cast<const float*>(half.grad) + i, grad);
  visit_half(half.grad_dtype,
             [&]<class T>(T) { load(static_cast<const T*>(half.grad) + i, grad); });
}

// Element i is rounded by the 16 bits number i of the stream. A pack begins at a multiple of 4, and
// eight halves make a block of words, so all of a pack's are in one.
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

template <int N>
__device__ inline void write_param(const UpdateBlock& b, std::int64_t i, float (&param)[N]) {
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

// One f32 number as the update rules compute with it: every operation is rounded by itself, as on
// the CPU.
struct Number {
  float v;

  __device__ Number() : v(0) {}
  __device__ explicit Number(float value) : v(value) {}

  friend __device__ Number operator+(Number a, Number b) { return Number(__fadd_rn(a.v, b.v)); }
  friend __device__ Number operator-(Number a, Number b) { return Number(__fsub_rn(a.v, b.v)); }
  friend __device__ Number operator*(Number a, Number b) { return Number(__fmul_rn(a.v, b.v)); }
  friend __device__ Number operator/(Number a, Number b) { return Number(a.v / b.v); }
};
__device__ inline Number fma(Number a, Number b, Number c) { return Number(fmaf(a.v, b.v, c.v)); }
__device__ inline Number minus_product(Number v, Number a, Number b) {
  return Number(fmaf(-a.v, b.v, v.v));
}
__device__ inline Number sqrt(Number v) { return Number(sqrtf(v.v)); }
__device__ inline Number decayed(float decay, Number param, Number grad) {
  return decay != 0 ? fma(Number(decay), param, grad) : grad;
}
__device__ inline Number zero_below(float least, Number v) {
  return fabsf(v.v) < least ? Number() : v;
}
__device__ inline Number at_least_zero(Number v) { return v.v < 0 ? Number() : v; }
__device__ inline Number sign(Number v) {
  return v.v == 0 || isnan(v.v) ? v : Number(copysignf(1, v.v));
}

namespace rules {

using mezzo::rules::RuleList;
#define MEZZO_RULE_FUNCTION __device__ inline
#include "mezzo/ops/update/rules/list-inl.h"
#undef MEZZO_RULE_FUNCTION

}  // namespace rules

// A struct of a rule's numbers.
template <class Numbers, std::size_t kMost>
__device__ inline Numbers numbers_of(const RuleNumbers<kMost>& stored) {
  Numbers numbers{};
  if constexpr (!std::is_empty_v<Numbers>) memcpy(&numbers, &stored, sizeof(numbers));
  return numbers;
}

// A rule with the numbers of a step.
template <class Of>
struct StepOf {
  using Rule = Of;
  UpdateFactors f;

  // Updates N numbers and their state, all in f32.
  //
  // The loss scale leaves here, in f32: taken out in 16 bits, small gradients would underflow.
  // Clipping comes after it, with a rounding of its own, as it would if it were done before the
  // step.
  template <int N>
  __device__ void apply_to(const UpdateBlock& b, float (&param)[N], float (&grad)[N],
                           float (&state)[Rule::kSlots + 1][N]) const {
    const auto own = numbers_of<typename Rule::Own>(b.own);
    const auto factors = numbers_of<typename Rule::Factors>(f.rule);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      Number p(param[k]);
      Number slots[Rule::kSlots + 1];
#pragma unroll
      for (std::size_t s = 0; s < Rule::kSlots; ++s) slots[s] = Number(state[s][k]);
      Rule::apply(p, Number(grad[k]) * Number(f.inv_scale) * Number(f.clip), slots, own, factors);
#pragma unroll
      for (std::size_t s = 0; s < Rule::kSlots; ++s) state[s][k] = slots[s].v;
      param[k] = p.v;
    }
  }

  template <int N>
  __device__ void apply(const UpdateBlock& b, std::int64_t i, float (&param)[N],
                        float (&grad)[N]) const {
    float state[Rule::kSlots + 1][N];  // one more, for there are no arrays of nothing
#pragma unroll
    for (std::size_t s = 0; s < Rule::kSlots; ++s) load(b.slots[s] + i, state[s]);
    apply_to(b, param, grad, state);
#pragma unroll
    for (std::size_t s = 0; s < Rule::kSlots; ++s) store(state[s], b.slots[s] + i);
  }

  __device__ static bool is_aligned_for(const UpdateBlock& b) {
    for (std::size_t s = 0; s < Rule::kSlots; ++s) {
      if (!is_aligned<kPack>(b.slots[s])) return false;
    }
    return true;
  }
};

template <int N, class Step>
__device__ inline void update_elements(const UpdateBlock& b, const Step& step, std::int64_t i) {
  float param[N];
  float grad[N];
  read_param(b, i, param);
  read_grad(b, i, grad);
  step.apply(b, i, param, grad);
  write_param(b, i, param);
}

template <int kBytes>
__device__ inline bool is_multiple(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % kBytes == 0;
}

// True if packs may be read from all of a block's memory.
template <class Step>
__device__ inline bool takes_packs(const UpdateBlock& b) {
  const HalfBlock& half = b.half;
  const bool wide_grad = half.grad_dtype == DType::kF32;
  return is_aligned<kPack>(b.param) && is_aligned<kPack>(b.grad) && Step::is_aligned_for(b) &&
         is_multiple<8>(half.param) && is_multiple<8>(half.compensation) &&
         is_multiple<8>(b.copy.data) &&
         (wide_grad ? is_multiple<16>(half.grad) : is_multiple<8>(half.grad));
}

// Updates a block with narrow state: a thread block takes kStateBlock elements at a time, one for
// each thread, for they share a scale.
template <class Step>
__device__ inline void update_narrow_block(const UpdateBlock& b, const Step& step) {
  constexpr std::size_t kSlots = Step::Rule::kSlots;
  for (std::int64_t at = blockIdx.x * kStateBlock; at < b.count; at += gridDim.x * kStateBlock) {
    const std::int64_t i = at + threadIdx.x;
    const bool is_there = i < b.count;
    float state[kSlots + 1][1] = {};
    if (is_there) {
      float param[1];
      float grad[1];
      read_param(b, i, param);
      read_grad(b, i, grad);
      for (std::size_t s = 0; s < kSlots; ++s) state[s][0] = read_state(b.state, s, i);
      step.apply_to(b, param, grad, state);
      write_param(b, i, param);
    }
    for (std::size_t s = 0; s < kSlots; ++s) write_state(b, s, i, is_there, state[s][0]);
  }
}

// The threads of a row of the grid update one block.
template <class Step>
__device__ inline void update_block(const UpdateBlock& b, const Step& step) {
  if (b.state) return update_narrow_block(b, step);
  const std::int64_t packed = takes_packs<Step>(b) ? b.count / kPack * kPack : 0;
  for (std::int64_t i = grid_first() * kPack; i < packed; i += grid_step() * kPack) {
    update_elements<kPack>(b, step, i);
  }
  for (std::int64_t i = packed + grid_first(); i < b.count; i += grid_step()) {
    update_elements<1>(b, step, i);
  }
}

template <class Step>
__global__ void update_kernel(Batch<UpdateBlock> batch, Step step) {
  update_block(batch.blocks[blockIdx.y], step);
}

// Where parameters are; null if none of them has an element.
const void* memory_of(std::span<const UpdateBlock> blocks) {
  for (const UpdateBlock& block : blocks) {
    const void* memory = block.param != nullptr ? block.param : block.half.param;
    if (memory != nullptr) return memory;
  }
  return nullptr;
}

template <class Rule>
void run(std::span<const UpdateBlock> blocks, const UpdateFactors& factors) {
  const void* memory = memory_of(blocks);
  if (memory == nullptr) return;
  const Launch launch(device_of(memory));
  for_batches(blocks, kAcross, [&](const Batch<UpdateBlock>& batch, dim3 grid) {
    update_kernel<<<grid, kThreads, 0, launch.stream()>>>(batch, StepOf<Rule>{factors});
  });
}

__device__ inline bool is_open(const Gate& gate) {
  for (std::size_t i = 0; i < gate.count; ++i) {
    if (gate.flags[i] != kNothingBad) return false;
  }
  return true;
}

// Updates a list in the device's memory. A closed gate costs the start of a kernel.
template <class Step>
__global__ void gated_update_kernel(Condition condition, Listed<UpdateBlock> list,
                                    std::size_t first, const UpdateFactors* factors) {
  if (!is_open(condition.gate)) return;
  const UpdateBlock block =
      list.blocks[first + blockIdx.y];  // once: what is stored could lie in the list
  Step step{*factors};
  const Clip& clip = condition.clip;
  if (clip.sum_of_squares != nullptr) {
    step.f.clip = clip_factor(::sqrt(*clip.sum_of_squares), clip.max_norm);
  }
  update_block(block, step);
}

template <class Rule>
void run_if(Device device, const Condition& condition, Listed<UpdateBlock> list,
            const UpdateFactors* factors) {
  const Launch launch(device);
  for_rows(list.count, kAcross, [&](std::size_t first, dim3 grid) {
    gated_update_kernel<StepOf<Rule>>
        <<<grid, kThreads, 0, launch.stream()>>>(condition, list, first, factors);
  });
}

// The two ways to run each of the rules.
struct Runs {
  void (*run)(std::span<const UpdateBlock>, const UpdateFactors&);
  void (*run_if)(Device, const Condition&, Listed<UpdateBlock>, const UpdateFactors*);
};

template <class... Rule>
const Runs& runs_of(std::size_t index, rules::RuleList<Rule...> /*rules*/) {
  static constexpr Runs kRuns[] = {{run<Rule>, run_if<Rule>}...};
  return kRuns[index];
}

}  // namespace

void update(const UpdateRule& rule, std::span<const UpdateBlock> blocks,
            const UpdateFactors& factors) {
  runs_of(rule.index, rules::Rules()).run(blocks, factors);
}

void update_if(const UpdateRule& rule, Device device, const Condition& condition,
               Listed<UpdateBlock> blocks, const UpdateFactors* factors) {
  runs_of(rule.index, rules::Rules()).run_if(device, condition, blocks, factors);
}

}  // namespace mezzo::flat::cuda

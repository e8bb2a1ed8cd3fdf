// What the kernels of recurrent layers share: the order of the steps of sequences, and the walk
// through them.
//
// The input's part of the gates is one product of all steps, which the layer computes. A step is
// the product of the state and the weight, by what matrix products use, followed by a kernel for
// the elements of its cells. States, sums and what is passed from step to step are f32: a state is
// added to at every step, and in 16 bits would stop changing. Factors of products have the dtype of
// the call.
#pragma once

#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/products.h"
#include "mezzo/kernels/cuda/report.h"
#include "mezzo/ops/recurrent_attrs.h"
#include "mezzo/ops/tf32.h"

namespace mezzo::kernels::cuda {

// The input as a dense tensor; undefined if it is absent.
inline Tensor dense_if_given(const KernelArgs& args, std::size_t i) {
  return args.has(i) ? dense(args.input(i), Format::kContiguous) : Tensor();
}

// An element of one step of one sequence. Rows are those of tensors [b, t, ...].
struct CellPlace {
  std::int64_t sequence;
  std::int64_t unit;
  std::int64_t state;   // element of a state [b, h]
  std::int64_t row;     // of the step
  std::int64_t before;  // row of the step before; -1 for a sequence's first step
};

// The steps of a batch of sequences, in the order in which they are computed.
struct SequenceSteps {
  std::int64_t batch, count, h;
  bool reverse;
  const std::int64_t* lengths;  // [b], or null: all sequences have `count` steps
  Report* report;

  SequenceSteps(const KernelArgs& args, const Shape& sequence, const Tensor& given)
      : batch(sequence[0]),
        count(sequence[1]),
        h(sequence[2]),
        reverse(args.attrs<RecurrentAttrs>().reverse),
        lengths(in_or_null<std::int64_t>(given)),
        report(report_of(args.output().device())) {}

  std::int64_t states() const { return batch * h; }

  // Reports a length outside [0, count], and takes `count` for it.
  __device__ std::int64_t length(std::int64_t n) const {
    if (lengths == nullptr) return count;
    return check_range(report, Fault::kLength, n, lengths[n], count + 1) ? lengths[n] : count;
  }
};

// Calls cell(place, products) for the elements of step k, and cell.skip(place, products) for those
// of sequences that have ended: row k of these belongs to no step, whatever the direction.
template <class Cell>
__global__ void step_kernel(Cell cell, SequenceSteps steps, std::int64_t k, const float* products) {
  for (std::int64_t i = grid_first(); i < steps.batch * steps.h; i += grid_step()) {
    const std::int64_t n = i / steps.h;
    const std::int64_t length = steps.length(n);
    const std::int64_t first = n * steps.count;
    if (k >= length) {
      cell.skip({n, i % steps.h, i, first + k, -1}, products);
      continue;
    }
    const std::int64_t row = first + (steps.reverse ? length - 1 - k : k);
    const std::int64_t before = k == 0 ? -1 : steps.reverse ? row + 1 : row - 1;
    cell({n, i % steps.h, i, row, before}, products);
  }
}

template <class Cell>
void start_step(const Launch& launch, const Cell& cell, const SequenceSteps& steps, std::int64_t k,
                const float* products) {
  step_kernel<<<launch.blocks_for(steps.states()), kThreads, 0, launch.stream()>>>(cell, steps, k,
                                                                                   products);
  check_launch("step_kernel");
}

// to = from, or 0 if that is null; factors = to as T, unless `factors` is null.
template <class T>
__global__ void begin_state_kernel(std::int64_t n, const float* from, float* to, T* factors) {
  for (std::int64_t i = grid_first(); i < n; i += grid_step()) {
    const float value = from != nullptr ? from[i] : 0.0F;
    to[i] = value;
    if (factors != nullptr) factors[i] = narrow<T>(value);
  }
}

template <class T>
void begin_state(const Launch& launch, std::int64_t n, const Tensor& from, float* to, T* factors) {
  begin_state_kernel<<<launch.blocks_for(n), kThreads, 0, launch.stream()>>>(
      n, in_or_null<float>(from), to, factors);
  check_launch("begin_state_kernel");
}

// The product of a step: rows [b, terms] of T by a weight, in f32.
template <class T>
Product step_product(const SequenceSteps& steps, std::int64_t columns, std::int64_t terms,
                     bool transposed, const Tensor& weight) {
  Product p;
  p.m = steps.batch;
  p.n = columns;
  p.k = terms;
  p.transpose_b = transposed;
  p.dtype = kDTypeOf<T>;
  p.tf32 = is_tf32_allowed();
  p.alignment = is_aligned<kPackOf<T>>(in<T>(weight)) ? 16 : static_cast<int>(sizeof(T));
  return p;
}

// Walks through all steps. A cell's kernel sets cell.factors, [b, h], the state of the next
// product. `begins_with_zeros`: the first step needs no product.
template <class T, class Cell>
void run_steps(const Launch& launch, const Cell& cell, const SequenceSteps& steps,
               const Tensor& weight, bool begins_with_zeros) {
  const std::int64_t columns = Cell::kGates * steps.h;
  const Product p = step_product<T>(steps, columns, steps.h, true, weight);
  const Scratch sums(static_cast<std::size_t>(steps.batch * columns) * sizeof(float),
                     launch.device());
  for (std::int64_t k = 0; k < steps.count; ++k) {
    const bool multiplies = k > 0 || !begins_with_zeros;
    if (multiplies) run_product(launch, p, cell.factors, weight.address(), sums.as<float>());
    start_step(launch, cell, steps, k, multiplies ? sums.as<float>() : nullptr);
  }
}

// Adds the last product to the gradient of the initial state.
__global__ inline void add_last_kernel(std::int64_t n, const float* products, float* grad) {
  for (std::int64_t i = grid_first(); i < n; i += grid_step()) grad[i] += products[i];
}

// Walks backwards. A cell's kernel adds the product of the step before it, [b, h], to the gradient
// of the state, cell.grad_h, and sets the factors [b, gates * h] of the next product.
template <class T, class Cell>
void run_steps_back(const Launch& launch, const Cell& cell, const SequenceSteps& steps,
                    const Tensor& weight) {
  const std::int64_t terms = Cell::kGates * steps.h;
  const Product p = step_product<T>(steps, steps.h, terms, false, weight);
  const Scratch products(static_cast<std::size_t>(steps.states()) * sizeof(float), launch.device());
  for (std::int64_t k = steps.count; k-- > 0;) {
    start_step(launch, cell, steps, k, k + 1 < steps.count ? products.as<float>() : nullptr);
    run_product(launch, p, cell.factors, weight.address(), products.as<float>());
  }
  add_last_kernel<<<launch.blocks_for(steps.states()), kThreads, 0, launch.stream()>>>(
      steps.states(), products.as<float>(), cell.grad_h);
  check_launch("add_last_kernel");
}

// An element, or 0 if there are none.
template <class T>
__device__ inline float value_or_zero(const T* numbers, std::int64_t i) {
  return numbers != nullptr ? widen(numbers[i]) : 0.0F;
}

// `supports`: the input `values` is f32, bf16 or f16.
template <std::size_t values>
Support supports_steps(const KernelArgs& args) {
  return is_vector_dtype(args.input(values).dtype())
             ? Support::yes()
             : Support::no("only f32, bf16 and f16 are supported on GPUs");
}

}  // namespace mezzo::kernels::cuda

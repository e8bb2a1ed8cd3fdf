// The loops over the steps of recurrent layers, for every kind of cell. Included once per
// instruction set, like simd-inl.h.
//
// A block is the units of one panel, with all of their gates. Threads share the blocks of a step;
// they meet after every step, because each unit reads the state of all units. Every sum is added up
// by one thread in the order of its terms, so the bits of a sequence depend neither on the number
// of threads nor on the other sequences.
#if defined(MEZZO_KERNELS_CPU_RECURRENT_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_RECURRENT_STEPS_INL_H_
#undef MEZZO_KERNELS_CPU_RECURRENT_STEPS_INL_H_
#else
#define MEZZO_KERNELS_CPU_RECURRENT_STEPS_INL_H_
#endif

#include <utility>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/recurrent/panels-inl.h"
#include "mezzo/kernels/cpu/recurrent/sequences.h"
#include "mezzo/kernels/cpu/simd/math-inl.h"
#include "mezzo/kernels/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// Where a cell is in a step.
struct CellPlace {
  std::int64_t sequence;
  std::int64_t position;
  std::int64_t before;  // the position before in this sequence; -1 if there is none
  std::int64_t unit;    // the first of a vector
};

// Multiply-adds of a thread below which another one costs more than it saves.
inline constexpr std::int64_t kStepGrain = 1 << 16;

inline std::int64_t grain_of_blocks(std::int64_t multiply_adds_per_block) {
  return std::max<std::int64_t>(1, kStepGrain / std::max<std::int64_t>(1, multiply_adds_per_block));
}

// Elements that may be absent (null): 0 then.
template <class T, class P>
HWY_INLINE F32Vec load_or_zero(const T* p, std::int64_t offset, P part) {
  return p != nullptr ? load(p + offset, part) : hn::Zero(F32());
}

// The optional [..., n] tensor as dense f32, or zeros.
inline Tensor floats_or_zeros(const Tensor& x, const Shape& shape) {
  if (x.defined()) return kernels::dense_f32(x);
  const Tensor none = scratch(shape, DType::kF32);
  std::fill_n(none.mutable_data<float>(), none.numel(), 0.0F);
  return none;
}

// Copies an optional state [batch, h] to `state`, of which the kernel makes the last one.
inline void begin_state(const Tensor& initial, float* state, std::int64_t count) {
  if (initial.defined()) {
    std::copy_n(kernels::dense_f32(initial).data<float>(), count, state);
  } else {
    std::fill_n(state, count, 0.0F);
  }
}

// The rows of a step and of the next one, in turn, in the order of `Sequences`.
class TurningRows {
 public:
  TurningRows(std::int64_t count, std::int64_t size)
      : block_(scratch({2, count, size}, DType::kF32)),
        read_(block_.mutable_data<float>()),
        write_(read_ + count * size),
        size_(size) {}

  const float* read() const { return read_; }
  float* read_row(std::int64_t row) const { return read_ + row * size_; }
  float* write_row(std::int64_t row) const { return write_ + row * size_; }
  void turn() { std::swap(read_, write_); }

 private:
  Tensor block_;
  float* read_;
  float* write_;
  std::int64_t size_;
};

// The states before the first step as factors of products, in both places: a sequence may begin
// after others.
template <class T>
void begin_rows(const kernels::Sequences& sequences, const float* state, std::int64_t h,
                const TurningRows& rows) {
  for (std::int64_t row = 0; row < sequences.batch(); ++row) {
    const float* from = state + sequences.in_row(row) * h;
    for_row(h, [&](std::int64_t u, auto part) HWY_ATTR {
      const auto value = as_stored<T>(load(from + u, part));
      store(value, rows.read_row(row) + u, part);
      store(value, rows.write_row(row) + u, part);
    });
  }
}

// All steps forwards. weight: [kGates * h, h]. Cell::operator()(place, part, sums, sum_step, next)
// computes a vector of units: the products of gate k with the state are at sums[k * sum_step], and
// the new state, as a factor of the next products, goes to `next`.
template <class T, class Cell>
void run_steps(const kernels::Sequences& sequences, const T* weight, std::int64_t h,
               const float* state, const Cell& cell) {
  const std::int64_t width = panel_columns();
  const std::int64_t blocks = ceil_div(h, width);
  const std::int64_t batch = sequences.batch();
  constexpr std::int64_t kGates = Cell::kGates;
  const Tensor packed = scratch({blocks * kGates, h, width}, DType::kF32);
  auto* panels = packed.mutable_data<float>();
  parallel_for(blocks * kGates, grain_of_blocks(h * width),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t p = begin; p < end; ++p) {
                   const MatrixView<T> m{weight + p % kGates * h * h, h, h, 1, h};
                   pack_panel(m, p / kGates * width, panels + p * h * width);
                 }
               });
  TurningRows rows(batch, h);
  begin_rows<T>(sequences, state, h, rows);
  const std::int64_t sum_step = batch * width;
  const Tensor products = scratch({blocks, kGates, batch, width}, DType::kF32);
  auto* sums = products.mutable_data<float>();
  for (std::int64_t k = 0; k < sequences.steps(); ++k) {
    const std::int64_t position = sequences.at(k);
    const std::int64_t active = sequences.active(position);
    const auto block_of_step = [&](std::int64_t block, std::int64_t next_block) HWY_ATTR {
      float* const sum = sums + block * kGates * sum_step;
      for (std::int64_t gate = 0; gate < kGates; ++gate) {
        const float* panel = panels + (block * kGates + gate) * h * width;
        const float* next =
            gate + 1 < kGates ? panel + h * width : panels + next_block * kGates * h * width;
        multiply_panel(rows.read(), active, h, panel, next, sum + gate * sum_step);
      }
      const std::int64_t first = block * width;
      for (std::int64_t row = 0; row < active; ++row) {
        const std::int64_t n = sequences.in_row(row);
        for_row(std::min(width, h - first), [&](std::int64_t u, auto part) HWY_ATTR {
          cell(CellPlace{n, position, sequences.before(n, position), first + u}, part,
               sum + row * width + u, sum_step, rows.write_row(row) + first + u);
        });
      }
    };
    parallel_for(blocks, grain_of_blocks(active * kGates * h * width),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t block = begin; block < end; ++block) {
                     block_of_step(block, block + 1 < end ? block + 1 : begin);
                   }
                 });
    if (active > 0) rows.turn();
  }
}

// All steps backwards. grad_state: [batch, h], at first the gradient of the last state, at the end
// that of the initial one. Cell::operator()(place, part, grad, factors, factor_step) computes a
// vector of units: it reads the gradient of the state after the step at `grad`, leaves there what
// reaches the state before it without the product, and writes the gradient of the products of gate
// k to factors[k * factor_step].
template <class T, class Cell>
void run_steps_back(const kernels::Sequences& sequences, const T* weight, std::int64_t h,
                    float* grad_state, const Cell& cell) {
  const std::int64_t width = panel_columns();
  const std::int64_t blocks = ceil_div(h, width);
  const std::int64_t batch = sequences.batch();
  const std::int64_t terms = Cell::kGates * h;
  const Tensor packed = scratch({blocks, terms, width}, DType::kF32);
  auto* panels = packed.mutable_data<float>();
  parallel_for(blocks, grain_of_blocks(terms * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      pack_panel(MatrixView<T>{weight, terms, h, h, 1}, p * width, panels + p * terms * width);
    }
  });
  TurningRows rows(batch, terms);
  const Tensor products = scratch({blocks, batch, width}, DType::kF32);
  auto* sums = products.mutable_data<float>();
  // Adds the products of the gradients of a step's gates, in `count` rows, to the state's gradient.
  const auto add_products = [&](std::int64_t block, std::int64_t next_block,
                                std::int64_t count) HWY_ATTR {
    float* const sum = sums + block * batch * width;
    multiply_panel(rows.read(), count, terms, panels + block * terms * width,
                   panels + next_block * terms * width, sum);
    for (std::int64_t row = 0; row < count; ++row) {
      float* to = grad_state + sequences.in_row(row) * h + block * width;
      for_row(std::min(width, h - block * width), [&](std::int64_t u, auto part) HWY_ATTR {
        store(hn::Add(load(to + u, part), load(sum + row * width + u, part)), to + u, part);
      });
    }
  };
  std::int64_t later = 0;  // rows that have a step after the present one
  for (std::int64_t k = sequences.steps(); k-- > 0;) {
    const std::int64_t position = sequences.at(k);
    const std::int64_t active = sequences.active(position);
    const auto block_of_step = [&](std::int64_t block, std::int64_t next_block) HWY_ATTR {
      add_products(block, next_block, later);
      const std::int64_t first = block * width;
      for (std::int64_t row = 0; row < active; ++row) {
        const std::int64_t n = sequences.in_row(row);
        for_row(std::min(width, h - first), [&](std::int64_t u, auto part) HWY_ATTR {
          cell(CellPlace{n, position, sequences.before(n, position), first + u}, part,
               grad_state + n * h + first + u, rows.write_row(row) + first + u, h);
        });
      }
    };
    parallel_for(blocks, grain_of_blocks(std::max(active, later) * terms * width),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t block = begin; block < end; ++block) {
                     block_of_step(block, block + 1 < end ? block + 1 : begin);
                   }
                 });
    rows.turn();
    later = active;
  }
  parallel_for(blocks, grain_of_blocks(later * terms * width),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t block = begin; block < end; ++block)
                   add_products(block, block, later);
               });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

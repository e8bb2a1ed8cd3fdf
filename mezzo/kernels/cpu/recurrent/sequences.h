// The sequences of a batch in the order in which a recurrent kernel holds them.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels {

// An optional input; undefined if it is absent.
inline Tensor input_if_given(const KernelArgs& args, std::size_t i) {
  return args.has(i) ? args.input(i) : Tensor();
}

// Dense copies of optional inputs, which live as long as this.
class OptionalInputs {
 public:
  explicit OptionalInputs(const KernelArgs& args) : args_(args) {}

  // The elements of input i; null if it is absent.
  template <class T>
  const T* find(std::size_t i) {
    if (!args_.has(i)) return nullptr;
    return kept_.emplace_back(dense(args_.input(i), Format::kContiguous)).template data<T>();
  }

 private:
  const KernelArgs& args_;
  std::vector<Tensor> kept_;
};

// `supports` of the kernels: input `kInput` has the dtype of the call. Lengths are integers.
template <std::size_t kInput>
Support supports_steps(const KernelArgs& args) {
  return is_vector_dtype(args.input(kInput).dtype())
             ? Support::yes()
             : Support::no("only f32, bf16 and f16 are vectorised");
}

// Sequences are held from the longest to the shortest, so that those which have a step are always
// the first few rows of a matrix, whatever the lengths.
class Sequences {
 public:
  // `lengths` [batch], i64, may be undefined: all sequences then have `steps`. Throws ArgumentError
  // for a length outside [0, steps].
  Sequences(const Tensor& lengths, std::int64_t batch, std::int64_t steps, bool reverse,
            const char* op);

  std::int64_t batch() const { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t steps() const { return static_cast<std::int64_t>(active_.size()); }
  // The sequence in that row.
  std::int64_t in_row(std::int64_t row) const { return order_[static_cast<std::size_t>(row)]; }
  std::int64_t length(std::int64_t sequence) const {
    return lengths_[static_cast<std::size_t>(sequence)];
  }
  // The number of rows that have a step at that position.
  std::int64_t active(std::int64_t position) const {
    return active_[static_cast<std::size_t>(position)];
  }
  // The position of step k of the computation.
  std::int64_t at(std::int64_t k) const { return reverse_ ? steps() - 1 - k : k; }
  // The position before that one in a sequence, or -1 if that one is the first.
  std::int64_t before(std::int64_t sequence, std::int64_t position) const {
    if (!reverse_) return position - 1;
    return position + 1 < length(sequence) ? position + 1 : -1;
  }
  // Writes zeros past the end of every sequence of x [batch, steps, ...].
  void clear_ends(const Tensor& x) const;

 private:
  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> order_;
  std::vector<std::int64_t> active_;
  bool reverse_;
};

}  // namespace mezzo::kernels

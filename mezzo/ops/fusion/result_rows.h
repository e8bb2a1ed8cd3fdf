// Results that nobody writes: whoever reads one computes a few rows at a time and uses them while
// they are in the caches.
#pragma once

#include <cstdint>
#include <memory>

#include "mezzo/core/function_ref.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

// The rows of a dense f32 matrix that is the result of a call.
class ResultRows {
 public:
  // Elements [begin, end) of the result; fewer than a row if a row is long.
  using Use = FunctionRef<void(std::int64_t begin, std::int64_t end, const float* values)>;

  ResultRows() = default;
  virtual ~ResultRows() = default;
  ResultRows(const ResultRows&) = delete;
  ResultRows& operator=(const ResultRows&) = delete;

  // How many groups of rows there are that are best computed together, and elements of one; the
  // last group may have fewer.
  virtual std::int64_t groups() const = 0;
  virtual std::int64_t group_elements() const = 0;
  // Computes groups [begin, end) on this thread, to the bits that the call writes, and has them
  // used. Different groups may be computed at the same time.
  virtual void compute(std::int64_t begin, std::int64_t end, Use use) const = 0;
};

// Whether the kernel that such a call on a CPU takes computes its result by rows (Kernel::rows).
// Looks at shapes, dtypes and layouts only.
bool gives_rows(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs);

// The dense result of such a call, whose elements are computed when they are first asked for. What
// the call reads must not be changed before.
Tensor result_when_asked(const OpDef& op, Inputs inputs, const Attrs& attrs, const Shape& shape,
                         DType dtype);

// What is left to do for such a tensor.
struct PendingRows {
  std::unique_ptr<ResultRows> rows{};  // null: nothing, or it cannot be done by rows
  DType dtype = DType::kF32;           // of what the call reads
  double flops = 0;
  double bytes = 0;  // that it reads
};
// While nobody has asked for the elements of such a tensor; without rows for any other tensor.
PendingRows pending_rows(const Tensor& tensor);

}  // namespace mezzo

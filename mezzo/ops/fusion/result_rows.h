// Pending results that are never stored: their reader computes a few rows at a time and uses them
// while they are in the caches.
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
  // Receives elements [begin, end) of the result; less than a row if a row is long.
  using Use = FunctionRef<void(std::int64_t begin, std::int64_t end, const float* values)>;

  ResultRows() = default;
  virtual ~ResultRows() = default;
  ResultRows(const ResultRows&) = delete;
  ResultRows& operator=(const ResultRows&) = delete;

  // The number of groups of rows that are best computed together, and the elements of one group;
  // the last group may have fewer.
  virtual std::int64_t groups() const = 0;
  virtual std::int64_t group_elements() const = 0;
  // Computes groups [begin, end) on this thread, bit-identical to the call, and passes them to
  // `use`. Different groups may be computed at the same time.
  virtual void compute(std::int64_t begin, std::int64_t end, Use use) const = 0;
};

// Whether the kernel for such a call on a CPU can compute its result by rows (Kernel::rows). Only
// shapes, dtypes and layouts matter.
bool gives_rows(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs);

// The dense result of such a call, whose elements are computed when they are first read. The inputs
// of the call must not be changed before that.
Tensor result_when_asked(const OpDef& op, Inputs inputs, const Attrs& attrs, const Shape& shape,
                         DType dtype);

// The remaining work for such a tensor.
struct PendingRows {
  std::unique_ptr<ResultRows> rows{};  // null: none is left, or it cannot be done by rows
  DType dtype = DType::kF32;           // of the call's inputs
  double flops = 0;
  double bytes = 0;  // bytes of the call's inputs
};
// The remaining work as long as nobody has read the elements; without rows for any other tensor.
PendingRows pending_rows(const Tensor& tensor);

}  // namespace mezzo

#include "mezzo/ops/min.h"

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {
namespace {

// x in the reverse order, exactly: -x, or -1 - x for integers, of which the smallest has no
// negative. It is its own inverse.
Tensor reversed(const Tensor& x) {
  if (is_floating(x.dtype())) return -x;
  return full({}, -1, x.dtype(), Format::kContiguous, x.device()) - x;
}

// Bools and unsigned integers have no negatives.
Tensor with_sign(const Tensor& x) {
  const bool is_signed = is_floating(x.dtype()) || x.dtype() == DType::kI32;
  return is_signed ? x : x.astype(DType::kI64);
}

}  // namespace

// -x is exact, but a region at O2 would round it to 16 bits, where neighbours become equal.
Tensor min(const Tensor& x, const Shape& axes, bool keepdim) {
  const WithoutPrecisionHook outside;
  return reversed(max(reversed(with_sign(x)), axes, keepdim)).astype(x.dtype());
}

Tensor argmin(const Tensor& x, std::int64_t axis) {
  const WithoutPrecisionHook outside;  // as in min()
  return argmax(reversed(with_sign(x)), axis);
}

}  // namespace mezzo

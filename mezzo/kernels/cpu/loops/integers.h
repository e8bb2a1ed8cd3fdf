// Kernels of their own for integer tensors: a double is exact to 2^53 only.
#pragma once

#include <cstdint>

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels {

// `supports` of kernels whose first input decides the dtype of the computation.
inline Support integers_only(const KernelArgs& args) {
  const DType dtype = args.input(0).dtype();
  return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kU8
             ? Support::yes()
             : Support::no("only i64, i32 and u8 are integers");
}

// Calls visit.operator()<T>() with the element type of an integer dtype.
template <class Visit>
void visit_integer_dtype(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kI64: return visit.template operator()<std::int64_t>();
    case DType::kI32: return visit.template operator()<std::int32_t>();
    default: return visit.template operator()<std::uint8_t>();
  }
}

}  // namespace mezzo::kernels

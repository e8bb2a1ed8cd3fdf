#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

const char* name_of(PrecisionClass precision_class) {
  switch (precision_class) {
    case PrecisionClass::kLower: return "lower";
    case PrecisionClass::kFloat32: return "float32";
    case PrecisionClass::kWidest: return "widest";
    case PrecisionClass::kFollow: return "follow";
    case PrecisionClass::kKeep: return "keep";
    case PrecisionClass::kRefuse: return "refuse";
  }
  return "?";
}

void Infer::check_rank(std::size_t i, std::size_t rank, const char* name) const {
  check(shape(i).rank() == rank, name, " must have ", rank, " dimensions, the shape is ", shape(i),
        ". Use reshape()");
}

void Infer::check_floating(std::size_t i, const char* name) const {
  check(is_floating(dtype(i)), name, " must be floating-point, it is ", dtype(i),
        ". Use astype(DType::kF32)");
}

void Infer::check_same_dtype(std::size_t a, std::size_t b) const {
  check(dtype(a) == dtype(b), "dtypes differ: ", dtype(a), " and ", dtype(b),
        ". Cast one with astype(), or use amp::Autocast");
}

void Infer::output(const Shape& shape, DType dtype, Format format) {
  MEZZO_INVARIANT(count_ < kMaxOutputs);
  check(is_countable(shape, size_of(dtype)), "the result would be ", dtype, shape,
        ", more bytes than can be counted. Make it of smaller tensors");
  outputs_[count_++] = {shape, dtype, format};
}

}  // namespace mezzo

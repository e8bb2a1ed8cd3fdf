// Changing the dtype or the memory layout of a tensor.
#pragma once

#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/update/packed_copy.h"

namespace mezzo {

// x in another dtype, same shape and format; the same handle if the dtype is already right. Floats
// become integers by leaving out the fraction; on CPUs those that do not fit become the nearest
// integer that does, and NaN 0.
//
// The 16-bit copy of a parameter (a leaf that requires a gradient) is made once per change of the
// parameter and shared by all casts; it is only filled when a kernel asks for it in that form. A
// copy that nobody has read by the time the parameter changes, as by an update, is never filled:
// reading it then throws ArgumentError. To keep the numbers of now, cast detach(): that is copied
// at once. The gradient flows back in the dtype of x: exact from 16 bits to f32.
Tensor cast(const Tensor& x, DType dtype);

// Records that `copy`, a tensor without history, is what cast() makes of x: for those who have the
// elements already.
void record_cast(const Tensor& x, Tensor& copy);

// The attributes with which the operation `cast` gives that dtype.
Attrs cast_attrs(DType dtype);

// A bf16 or f16 tensor as f32, differentiably; any other, and an undefined one, as it is.
Tensor widen(const Tensor& x);

// The same elements in a dense block of that format; the same handle if it is already one.
Tensor to_format(const Tensor& x, Format format);
inline Tensor contiguous(const Tensor& x) { return to_format(x, Format::kContiguous); }

// If x is the shared 16-bit copy of an f32 parameter, or a view of it, and nobody has asked for the
// copy's elements yet: the parameter, or the same view of it. Else undefined. A kernel that packs
// weights reads the parameter instead, in one pass.
Tensor pending_source(const Tensor& x);

// The copies of an f32 parameter as an update sees them that writes all in one pass, so that the
// next step need not cast nor pack: found before the parameter changes, kept after it.
//
// A plain 16-bit copy is found only if a cast has given it out since the last change, somebody
// asked for its elements, and nobody holds it any more: what a backward pass has yet to read stays
// as it was. If nobody asked for its elements, the copies are those in kernels' layouts that were
// read since the last change, of the parameter or of its pending 16-bit copy.
class RenewedCopy {
 public:
  // Empty if there is none.
  static RenewedCopy find(const Tensor& param);

  explicit operator bool() const { return storage_ || !packed_.empty(); }
  // Of the plain copy; null if there is none.
  void* address() const { return storage_ ? storage_->data() : nullptr; }
  DType dtype() const { return dtype_; }
  PackedCopies packed() const { return {packed_.data(), packed_.size()}; }
  // The copies hold the elements of `param` as they are now: later casts and kernels share them.
  void keep(const Tensor& param) const;

 private:
  void find_packed(const Tensor& param, Storage& source, DType dtype);

  Ref<Storage> storage_;
  DType dtype_ = DType::kF32;  // of the copies, or of the 16-bit copy that they are packed from
  std::vector<Ref<PackedCopy>> packed_;
  std::vector<DerivedKey> keys_;  // of the packed ones
};

// Copies x over `destination`, which has the same shape, converting dtype and layout on the way. An
// in-place change that is not recorded.
void convert_into(const Tensor& x, const Tensor& destination);

}  // namespace mezzo

// Changing the dtype or the memory layout of a tensor.
#pragma once

#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/update/packed_copy.h"

namespace mezzo {

// x in another dtype, same shape and format; the same handle if the dtype is already right. Floats
// become integers by dropping the fraction. On CPUs, values out of range become the nearest integer
// in range, and NaN becomes 0.
//
// The 16-bit copy of a parameter (a leaf that requires a gradient) is made once per change of the
// parameter and shared by all casts. It is filled only when a kernel reads it in that form. If the
// parameter changes, for example by an update, before anybody has read the copy, the copy is never
// filled, and reading it throws ArgumentError. To keep the current values, cast detach(), which
// copies at once. The gradient flows back in the dtype of x: exact from 16 bits to f32.
Tensor cast(const Tensor& x, DType dtype);

// Records that `copy`, a tensor without history, is the result of casting x, for callers who
// already have the elements.
void record_cast(const Tensor& x, Tensor& copy);

// The attributes of the operation `cast` for that target dtype.
Attrs cast_attrs(DType dtype);

// A tensor in a lower precision as f32, differentiably; other tensors, and undefined ones, as they
// are.
Tensor widen(const Tensor& x);

// The same elements in a dense block of that format; the same handle if it is already one.
Tensor to_format(const Tensor& x, Format format);
inline Tensor contiguous(const Tensor& x) { return to_format(x, Format::kContiguous); }

// If x is the shared 16-bit copy of an f32 parameter, or a view of it, and the copy has not been
// filled yet: the parameter, or the same view of it. Otherwise undefined. A kernel that packs
// weights reads the parameter instead, in one pass.
Tensor pending_source(const Tensor& x);

// If x is the shared 16-bit copy of a parameter, or a view of it: the parameter, without its
// history. Otherwise undefined.
Tensor copied_parameter(const Tensor& x);

// The copies of an f32 parameter that an update writes in the same pass, so that the next step need
// neither cast nor pack. They are found before the parameter changes and kept afterwards.
//
// A plain 16-bit copy is found only if a cast has returned it since the last change, it was filled,
// and nobody holds it any more: a copy that a backward pass has yet to read must not change. If it
// was not filled, the copies are those in kernels' layouts that were read since the last change,
// made from the parameter or from its pending 16-bit copy.
class RenewedCopy {
 public:
  // Empty if there is none.
  static RenewedCopy find(const Tensor& param);

  explicit operator bool() const { return storage_ || !packed_.empty(); }
  // Address of the plain copy; null if there is none.
  void* address() const { return storage_ ? storage_->data() : nullptr; }
  DType dtype() const { return dtype_; }
  PackedCopies packed() const { return {packed_.data(), packed_.size()}; }
  // Declares that the copies hold the current elements of `param`: later casts and kernels share
  // them.
  void keep(const Tensor& param) const;

 private:
  void find_packed(const Tensor& param, Storage& source, DType dtype);

  Ref<Storage> storage_;
  DType dtype_ = DType::kF32;  // of the copies, or of the 16-bit copy behind packed ones
  std::vector<Ref<PackedCopy>> packed_;
  std::vector<DerivedKey> keys_;  // keys of the packed copies
};

// Copies x over `destination`, which has the same shape, converting dtype and layout. An in-place
// change that is not recorded.
void convert_into(const Tensor& x, const Tensor& destination);

}  // namespace mezzo

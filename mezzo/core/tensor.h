// Tensor: a handle to an n-dimensional array of one dtype.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mezzo/core/derived.h"
#include "mezzo/core/device.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/error.h"
#include "mezzo/core/ref.h"
#include "mezzo/core/shape.h"
#include "mezzo/core/storage.h"

namespace mezzo {

class TensorImpl;
struct AutogradMeta;

// A handle to an array. Copying a Tensor copies the handle; both then name the same elements.
// A default-constructed Tensor is undefined: it names nothing, and only defined() may be asked.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return static_cast<bool>(impl_); }
  explicit operator bool() const { return defined(); }

  const Shape& shape() const;
  const Strides& strides() const;
  DType dtype() const;
  Device device() const;
  std::size_t rank() const { return shape().rank(); }
  std::int64_t numel() const { return shape().numel(); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype()); }
  // The size of a dimension, counted from the end if negative.
  std::int64_t size(std::int64_t axis) const;

  // True if the elements fill one block of memory in that order. Dimensions of size 1 do not
  // matter, so a [n, c, 1, 1] tensor is dense in both formats.
  bool is_dense(Format format = Format::kContiguous) const;
  // True if it is dense in one of the formats, for loops that need not know which.
  bool is_one_block() const { return is_dense() || is_dense(Format::kChannelsLast); }
  // The format of a dense tensor; kContiguous where both fit or neither does.
  Format format() const;

  // True if no other handle or view uses the elements. It may be true of a view whose own elements
  // overlap, such as the result of expand().
  bool is_unshared() const;

  // This tensor's elements on another device; the same handle if they are there already. A copy is
  // a leaf that requires no gradient, and nothing is recorded. A copy from pinned memory may still
  // be running when this returns. Throws UnsupportedError if there is no such device.
  Tensor to(Device device) const;

  // Pointer to the first element, for reading. Throws ArgumentError unless T is the tensor's dtype
  // and the tensor is in host memory.
  template <class T>
  const T* data() const {
    return static_cast<const T*>(checked_data(kDTypeOf<T>));
  }
  // Pointer to the first element, for writing. This call counts as the in-place change, not the
  // later writes. Call it again before each change: 16-bit copies of parameters, which autocast
  // regions read, rely on the count.
  template <class T>
  T* mutable_data() const {
    void* data = checked_data(kDTypeOf<T>);
    count_change();
    return static_cast<T*>(data);
  }
  const void* raw_data() const;
  void* mutable_raw_data() const;

  // The only element as a double. Throws ArgumentError if there is not exactly one.
  double item() const;
  // All elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const;

  // Automatic differentiation ------------------------------------------------------------------
  // True if gradients flow into or through this tensor.
  bool requires_grad() const;
  // Makes a leaf collect (or stop collecting) gradients. Throws ArgumentError for integer types and
  // for results of recorded operations.
  Tensor& set_requires_grad(bool requires_grad);
  // True for tensors that no recorded operation produced.
  bool is_leaf() const;
  // The gradient that backward() collected; undefined if there is none. That of a 16-bit tensor is
  // f32 once several have been added up (autograd/engine.h).
  const Tensor& grad() const;
  // Replaces the gradient; an undefined tensor removes it. Throws ArgumentError unless both are
  // floating-point and have the same shape and device. The dtypes may differ; optimizers say which
  // they accept.
  void set_grad(Tensor grad) const;
  void clear_grad() const;
  // Adds d(this)/d(leaf) to the gradient of every leaf. Without an argument this must be a scalar.
  // Defined in mezzo/autograd.
  void backward(const Tensor& grad_output = Tensor(), bool retain_graph = false) const;
  // The same elements, without their history.
  Tensor detach() const;

  // This tensor in another dtype; differentiable. The same handle if the dtype is already right.
  // Defined in mezzo/ops/cast.cpp.
  Tensor astype(DType dtype) const;

  // Plumbing for mezzo's own layers -------------------------------------------------------------
  TensorImpl* impl() const { return impl_.get(); }
  const Ref<TensorImpl>& impl_ref() const { return impl_; }
  const Ref<Storage>& storage() const;
  std::int64_t offset() const;
  // Address of the first element, on any device; does not count as a change. For kernels.
  void* address() const;
  std::uint64_t version() const { return storage()->version(); }
  void bump_version() const { storage()->bump_version(); }
  AutogradMeta* autograd_meta() const;  // null if this tensor never took part in differentiation
  AutogradMeta& require_autograd_meta() const;

 private:
  void* checked_data(DType dtype) const;
  void count_change() const {
    storage()->fill_held_copies();
    bump_version();
  }

  Ref<TensorImpl> impl_;
};

// The array behind the handles.
class TensorImpl final : public RefCounted {
 public:
  TensorImpl(Ref<Storage> block, std::int64_t first, const Shape& sizes, const Strides& steps,
             DType type);
  ~TensorImpl() override;

  Ref<Storage> storage;
  std::int64_t offset;  // of the first element, in elements
  Shape shape;
  Strides strides;  // in elements
  DType dtype;
  std::unique_ptr<AutogradMeta> autograd;
};

// The state of automatic differentiation for a tensor.
struct AutogradMeta {
  bool requires_grad = false;
  // A leaf that stands for a result: gradients are summed in its own dtype, like those of results.
  bool stands_for_result = false;
  Tensor grad;
  Ref<RefCounted>
      node;  // the recorded operation that produced the tensor (mezzo/ops/dispatcher/node.h)
  std::uint32_t output = 0;  // which output of that operation
};

// An uninitialised tensor.
Tensor empty(const Shape& shape, DType dtype = DType::kF32, Format format = Format::kContiguous,
             Device device = kCpuDevice);
// An uninitialised tensor in pinned host memory, which to() copies to a device while the host goes
// on. Its elements must not be changed before that copy is done.
Tensor empty_pinned(const Shape& shape, DType dtype = DType::kF32,
                    Format format = Format::kContiguous);
Tensor zeros(const Shape& shape, DType dtype = DType::kF32, Format format = Format::kContiguous,
             Device device = kCpuDevice);
Tensor ones(const Shape& shape, DType dtype = DType::kF32, Format format = Format::kContiguous,
            Device device = kCpuDevice);
Tensor full(const Shape& shape, double value, DType dtype = DType::kF32,
            Format format = Format::kContiguous, Device device = kCpuDevice);
// The values 0, 1, ..., n - 1.
Tensor arange(std::int64_t n, DType dtype = DType::kF32);
// A tensor with a copy of `values` in row-major order. Throws ArgumentError if the number of values
// differs.
template <class T>
Tensor from_values(std::span<const T> values, const Shape& shape);
template <class T>
Tensor from_values(std::initializer_list<T> values, const Shape& shape) {
  return from_values(std::span<const T>(values.begin(), values.size()), shape);
}
template <class T>
Tensor from_values(const std::vector<T>& values, const Shape& shape) {
  return from_values(std::span<const T>(values), shape);
}

// A tensor over the same storage with another geometry. Throws ArgumentError if that reaches
// outside of the storage, or if shape and strides differ in rank.
Tensor alias(const Tensor& tensor, const Shape& shape, const Strides& strides, std::int64_t offset);

// True if both are the same elements in the same order, as a tensor and its detach() are.
bool have_same_elements(const TensorImpl& a, const TensorImpl& b);

// True if both are views of one storage whose memory ranges overlap, and are not the same elements
// in the same order. Writing one while reading the other may then read new values.
bool may_overlap(const Tensor& a, const Tensor& b);

// The key under which the tensor's storage keeps a copy.
DerivedKey derived_key(const Tensor& tensor, std::uint64_t kind, std::uint64_t detail);

// Writes `value` into every element (an in-place change). Throws ArgumentError if it is finite and
// beyond the range of the tensor's floating dtype; so does full().
void fill(const Tensor& tensor, double value);

// Copies elements in logical order, converting dtypes and layouts (an in-place change of
// `destination`), between devices if they differ. This is the plain loop; kernels have faster ones.
// Shapes must be equal. Both may be views of the same memory: everything is read before it is
// overwritten.
void copy_elements(const Tensor& source, const Tensor& destination);

// A copy of the elements in one block of memory on the same device, in the tensor's format. Nothing
// is recorded.
Tensor copy_of(const Tensor& tensor);

// Moves the elements of all handles of a tensor, and its gradient, to a device, as networks do with
// their parameters. Views of the tensor keep the old elements.
void move_to(const Tensor& tensor, Device device);
// The number of tensors that this process has moved with move_to(). When it changes, remembered
// addresses of such tensors, and lists of them on their device, may be wrong.
std::uint64_t count_of_moves();

// Appends dtype and shape, as in `f32[2, 3]`.
void append_text(std::string& out, const Tensor& tensor);

}  // namespace mezzo

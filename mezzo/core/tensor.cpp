#include "mezzo/core/tensor.h"

#include <algorithm>
#include <cstring>

#include "mezzo/core/parallel.h"

namespace mezzo {

TensorImpl::TensorImpl(Ref<Storage> block, std::int64_t first, const Shape& sizes,
                       const Strides& steps, DType type)
    : storage(std::move(block)), offset(first), shape(sizes), strides(steps), dtype(type) {}

// A lazy copy holds the memory that it copies, which holds the copy. The end of the parameter
// breaks this cycle.
TensorImpl::~TensorImpl() {
  if (autograd != nullptr && !autograd->node) storage->drop_derived();
}

namespace {

const Tensor kUndefined;

TensorImpl& impl_of(const Tensor& tensor) {
  check_arg(tensor.defined(), "tensor", "an undefined tensor was used. Assign it first");
  return *tensor.impl();
}

bool strides_match(const Shape& shape, const Strides& strides, const Strides& wanted) {
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1 && strides[i] != wanted[i]) return false;
  }
  return true;
}

}  // namespace

const Shape& Tensor::shape() const { return impl_of(*this).shape; }
const Strides& Tensor::strides() const { return impl_of(*this).strides; }
DType Tensor::dtype() const { return impl_of(*this).dtype; }
Device Tensor::device() const { return impl_of(*this).storage->device(); }
const Ref<Storage>& Tensor::storage() const { return impl_of(*this).storage; }
std::int64_t Tensor::offset() const { return impl_of(*this).offset; }

DerivedKey derived_key(const Tensor& tensor, std::uint64_t kind, std::uint64_t detail) {
  const TensorImpl& impl = impl_of(tensor);
  const bool is_queued = !impl.storage->device().is_cpu();
  return {kind,
          detail,
          impl.offset,
          impl.shape,
          impl.strides,
          impl.dtype,
          is_queued ? this_thread() : 0};
}

std::int64_t Tensor::size(std::int64_t axis) const {
  return shape()[normalize_axis(axis, rank(), "size")];
}

bool Tensor::is_dense(Format format) const {
  const TensorImpl& impl = impl_of(*this);
  if (format == Format::kChannelsLast && impl.shape.rank() != 4) return false;
  return impl.shape.numel() == 0 ||
         strides_match(impl.shape, impl.strides, strides_for(impl.shape, format));
}

Format Tensor::format() const {
  return !is_dense(Format::kContiguous) && is_dense(Format::kChannelsLast) ? Format::kChannelsLast
                                                                           : Format::kContiguous;
}

void* Tensor::checked_data(DType dtype) const {
  TensorImpl& impl = impl_of(*this);
  check_arg(impl.dtype == dtype, "tensor", "elements are ", impl.dtype, ", but were requested as ",
            dtype, ". Use astype() first");
  // Reading a GPU's memory from the host would be a crash, or a hidden copy.
  check_arg(impl.storage->device().is_cpu(), "tensor", "the elements are on ",
            impl.storage->device(), ", where the host cannot read them. Use to(kCpuDevice) first");
  return static_cast<char*>(impl.storage->data()) + impl.offset * size_of(dtype);
}

bool Tensor::is_unshared() const {
  const TensorImpl& impl = impl_of(*this);
  return impl.use_count() == 1 && impl.storage->use_count() == 1;
}

void* Tensor::address() const {
  const TensorImpl& impl = impl_of(*this);
  return static_cast<char*>(impl.storage->data()) + impl.offset * size_of(impl.dtype);
}

const void* Tensor::raw_data() const { return checked_data(dtype()); }

void* Tensor::mutable_raw_data() const {
  void* data = checked_data(dtype());
  count_change();
  return data;
}

double Tensor::item() const {
  check_arg(numel() == 1, "item", "exactly one element is needed, the shape is ", shape(),
            ". Use to_vector(), or a sum() or mean()");
  return to_vector<double>()[0];
}

bool Tensor::requires_grad() const {
  const AutogradMeta* meta = impl_of(*this).autograd.get();
  return meta != nullptr && (meta->requires_grad || meta->node);
}

bool Tensor::is_leaf() const {
  const AutogradMeta* meta = impl_of(*this).autograd.get();
  return meta == nullptr || !meta->node;
}

Tensor& Tensor::set_requires_grad(bool requires_grad) {
  check_arg(is_leaf(), "set_requires_grad",
            "only leaves can be changed, and this is the result of an operation. Use detach()");
  check_arg(!requires_grad || can_have_gradients(dtype()), "set_requires_grad",
            "only floats of 16 bits or more have gradients, this tensor is ", dtype(),
            ". Use astype(DType::kF32)");
  if (requires_grad || autograd_meta() != nullptr) {
    require_autograd_meta().requires_grad = requires_grad;
  }
  return *this;
}

const Tensor& Tensor::grad() const {
  const AutogradMeta* meta = impl_of(*this).autograd.get();
  return meta != nullptr ? meta->grad : kUndefined;
}

void Tensor::set_grad(Tensor grad) const {
  if (grad.defined()) {
    check_arg(can_have_gradients(dtype()), "set_grad",
              "only floats of 16 bits or more have gradients, this tensor is ", dtype(),
              ". Use astype() first");
    check_arg(can_have_gradients(grad.dtype()), "set_grad",
              "the gradient must be a float of 16 bits or more, it is ", grad.dtype(),
              ". Use astype()");
    check_arg(grad.shape() == shape(), "set_grad", "the gradient has shape ", grad.shape(),
              ", the tensor ", shape(), ". Pass one value per element");
    check_arg(grad.device() == device(), "set_grad", "the gradient is on ", grad.device(),
              ", the tensor on ", device(), ". Use to()");
  }
  require_autograd_meta().grad = std::move(grad);
}

void Tensor::clear_grad() const {
  if (AutogradMeta* meta = autograd_meta(); meta != nullptr) meta->grad = Tensor();
}

Tensor Tensor::detach() const { return alias(*this, shape(), strides(), offset()); }

AutogradMeta* Tensor::autograd_meta() const { return impl_of(*this).autograd.get(); }

AutogradMeta& Tensor::require_autograd_meta() const {
  auto& meta = impl_of(*this).autograd;
  if (meta == nullptr) meta = std::make_unique<AutogradMeta>();
  return *meta;
}

Tensor alias(const Tensor& tensor, const Shape& shape, const Strides& strides,
             std::int64_t offset) {
  check_arg(shape.rank() == strides.rank(), "alias", "the shape ", shape, " and the strides ",
            strides, " must have one entry for each axis. Give both the same rank");
  check_arg(std::ranges::all_of(shape, [](std::int64_t size) { return size >= 0; }), "alias",
            "a size is negative: ", shape, ". Use sizes of 0 or more");
  const auto places =
      static_cast<std::int64_t>(tensor.storage()->bytes() / size_of(tensor.dtype()));
  const Extent extent = extent_of(shape, strides, offset);
  check_arg(extent.begin == extent.end || (extent.begin >= 0 && extent.end <= places), "alias",
            "a view of shape ", shape, " and strides ", strides, " from element ", offset,
            " goes beyond the storage, which has ", places,
            " elements. Check them: the offset counts from the start of the storage");
  return Tensor(make_ref<TensorImpl>(tensor.storage(), offset, shape, strides, tensor.dtype()));
}

bool have_same_elements(const TensorImpl& a, const TensorImpl& b) {
  return a.storage == b.storage && a.dtype == b.dtype && a.offset == b.offset &&
         a.shape == b.shape && a.strides == b.strides;
}

bool may_overlap(const Tensor& a, const Tensor& b) {
  if (a.storage() != b.storage() || have_same_elements(*a.impl(), *b.impl())) return false;
  const auto [begin_a, end_a] = extent_of(a.shape(), a.strides(), a.offset());
  const auto [begin_b, end_b] = extent_of(b.shape(), b.strides(), b.offset());
  const auto size_a = static_cast<std::int64_t>(size_of(a.dtype()));
  const auto size_b = static_cast<std::int64_t>(size_of(b.dtype()));
  return std::max(begin_a * size_a, begin_b * size_b) < std::min(end_a * size_a, end_b * size_b);
}

void append_text(std::string& out, const Tensor& tensor) {
  if (!tensor.defined()) {
    out += "undefined";
    return;
  }
  append_text(out, tensor.dtype());
  append_text(out, tensor.shape());
}

}  // namespace mezzo

#include "mezzo/ops/fusion/result_rows.h"

#include <utility>
#include <vector>

#include "mezzo/core/storage.h"
#include "mezzo/ops/dispatcher/dispatch.h"

namespace mezzo {
namespace {

class CallContents final : public LazyContents {
 public:
  CallContents(const OpDef& op, Inputs inputs, const Attrs& attrs, const Shape& shape, DType dtype)
      : op_(&op), attrs_(attrs), shape_(shape), dtype_(dtype) {
    for (const Tensor* input : inputs) inputs_.push_back(*input);
    for (const Tensor& input : inputs_) pointers_.push_back(&input);
    for (const Tensor& input : inputs_) versions_.push_back(version_of(input));
  }

  void fill(void* destination) override {
    Tensor result = result_in(make_ref<Storage>(destination, bytes(), kCpuDevice, owner()));
    run_kernel(*op_, pointers_, {&result, 1}, attrs_);
  }

  bool is_current() const override {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (version_of(inputs_[i]) != versions_[i]) return false;
    }
    return true;
  }

  Tensor result_in(Ref<Storage> storage) const {
    return Tensor(make_ref<TensorImpl>(std::move(storage), 0, shape_,
                                       strides_for(shape_, Format::kContiguous), dtype_));
  }

  std::size_t bytes() const { return static_cast<std::size_t>(shape_.numel()) * size_of(dtype_); }

  // The rows of the call's result. `result` has its shape; its elements are not read.
  PendingRows rows(Tensor result) const {
    const std::span<Tensor> outputs(&result, 1);
    PendingRows pending{.rows = rows_of(*op_, pointers_, outputs, attrs_),
                        .dtype = inputs_[0].dtype()};
    if (op_->flops != nullptr) pending.flops = op_->flops(pointers_, outputs, attrs_);
    for (const Tensor& input : inputs_) {
      if (input.defined()) pending.bytes += static_cast<double>(input.bytes());
    }
    return pending;
  }

 private:
  static std::uint64_t version_of(const Tensor& tensor) {
    return tensor.defined() ? tensor.version() : 0;
  }
  Ref<RefCounted> owner() { return Ref<RefCounted>(this); }

  const OpDef* op_;
  Attrs attrs_;
  Shape shape_;
  DType dtype_;
  std::vector<Tensor> inputs_;
  std::vector<const Tensor*> pointers_;  // to inputs_
  std::vector<std::uint64_t> versions_;
};

}  // namespace

bool gives_rows(const OpDef& op, Inputs inputs, std::span<Tensor> outputs, const Attrs& attrs) {
  return rows_of(op, inputs, outputs, attrs) != nullptr;
}

Tensor result_when_asked(const OpDef& op, Inputs inputs, const Attrs& attrs, const Shape& shape,
                         DType dtype) {
  auto* const contents = new CallContents(op, inputs, attrs, shape, dtype);
  const Ref<LazyContents> owner(contents);
  return contents->result_in(make_ref<Storage>(contents->bytes(), kCpuDevice, owner));
}

PendingRows pending_rows(const Tensor& tensor) {
  const Storage& storage = *tensor.storage();
  if (storage.is_materialized()) return {};
  const auto* const contents = dynamic_cast<const CallContents*>(storage.lazy_contents());
  const bool is_whole = contents != nullptr && tensor.bytes() == contents->bytes() &&
                        tensor.is_dense() && contents->is_current();
  return is_whole ? contents->rows(tensor) : PendingRows();
}

}  // namespace mezzo

#include "mezzo/amp/batch.h"

#include "mezzo/core/error.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

constexpr const char* kBatchOp = "batch";

// Calls f for every tensor that is there.
template <class F>
void each_of(const Batch& batch, const F& f) {
  for (const auto& [tensors, kind] :
       {std::pair(&batch.inputs, "input"), std::pair(&batch.labels, "labels")}) {
    for (std::size_t i = 0; i < tensors->size(); ++i) {
      if ((*tensors)[i].defined()) f((*tensors)[i], kind, i);
    }
  }
}

template <class F>
Batch changed(const Batch& batch, const F& f) {
  Batch result = batch;
  for (nn::Tensors* tensors : {&result.inputs, &result.labels}) {
    for (Tensor& tensor : *tensors) {
      if (tensor.defined()) tensor = f(tensor);
    }
  }
  return result;
}

std::vector<bool> which_are_there(const nn::Tensors& tensors) {
  std::vector<bool> there;
  for (const Tensor& tensor : tensors) there.push_back(tensor.defined());
  return there;
}

}  // namespace

std::int64_t Batch::size() const {
  const nn::Tensors tensors = amp::tensors_of(*this);
  check_arg(!tensors.empty(), kBatchOp, "there is no tensor. Give inputs, labels or both");
  return tensors.front().rank() > 0 ? tensors.front().size(0) : 1;
}

void Batch::check_rows() const {
  const std::int64_t n = size();
  each_of(*this, [n](const Tensor& tensor, const char* kind, std::size_t i) {
    check_arg(tensor.rank() > 0 && tensor.size(0) == n, kBatchOp, kind, " ", i, " is ", tensor,
              " in a batch of ", n, " examples. Give a row for each example");
  });
}

Batch Batch::slice(std::int64_t begin, std::int64_t end) const {
  return changed(*this, [&](const Tensor& tensor) { return mezzo::slice(tensor, 0, begin, end); });
}

Batch Batch::to(Device device) const {
  return changed(*this, [device](const Tensor& tensor) { return tensor.to(device); });
}

namespace amp {

BatchLayout layout_of(const Batch& batch) {
  return {which_are_there(batch.inputs), which_are_there(batch.labels)};
}

nn::Tensors tensors_of(const Batch& batch) {
  nn::Tensors tensors;
  each_of(batch,
          [&](const Tensor& tensor, const char*, std::size_t) { tensors.push_back(tensor); });
  return tensors;
}

Batch batch_of(const BatchLayout& layout, std::span<const Tensor> tensors) {
  Batch batch;
  auto next = tensors.begin();
  for (const bool is_there : layout.inputs) {
    batch.inputs.push_back(is_there ? *next++ : Tensor());
  }
  for (const bool is_there : layout.labels) {
    batch.labels.push_back(is_there ? *next++ : Tensor());
  }
  return batch;
}

}  // namespace amp
}  // namespace mezzo

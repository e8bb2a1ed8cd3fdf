#include "mezzo/graph/passes/infer_specs.h"

namespace mezzo::graph {

std::vector<ValueSpec> infer_specs(const OpDef& op, const Attrs& attrs,
                                   const std::vector<const ValueSpec*>& inputs) {
  std::vector<Tensor> tensors;
  tensors.reserve(inputs.size());
  for (const ValueSpec* spec : inputs) {
    tensors.push_back(spec != nullptr ? stand_in(*spec) : Tensor());
  }
  if (op.view != nullptr) return {ValueSpec::of(op.view(tensors[0], attrs))};
  std::vector<const Tensor*> pointers;
  pointers.reserve(tensors.size());
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  Infer infer(op.name, pointers, attrs);
  op.infer(infer);
  std::vector<ValueSpec> result;
  for (const TensorSpec& output : infer.outputs()) {
    result.push_back(ValueSpec::dense(output.shape, output.dtype, output.format));
  }
  return result;
}

}  // namespace mezzo::graph

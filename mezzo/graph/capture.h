// Captures a step: records the calls that a function makes, as a Program.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/graph/program.h"

namespace mezzo::graph {

// A function from tensors to tensors that uses mezzo's operations: forward and backward passes,
// loss scaling, optimizers.
using Step = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

// The decision for a call: the dtype to which its inputs are cast, if any.
struct Paint {
  const OpDef* op = nullptr;
  std::optional<DType> dtype{};
};

struct CaptureOptions {
  // Names for tensors that exist between runs, such as a network's parameters, in the text form.
  std::vector<NamedTensor> names{};
  // Regions of mixed precision do not cast; their policies are noted at each node for the pass that
  // paints. Otherwise their casts become ordinary nodes.
  bool defer_casts = false;
  // If given, regions do not cast, and the calls outside of backward passes are painted with these,
  // in the order of a deferred capture of the same step; see paints_of().
  const std::vector<Paint>* paints = nullptr;
  // The dtypes to which the step's results are cast, in order; null or empty: no cast.
  const std::vector<std::optional<DType>>* result_dtypes = nullptr;
  // Parts of the program will be recorded; see CaptureHook::records().
  bool records = false;
};

// Calls `step` once without computing anything: results have shapes and dtypes, but no elements. If
// something outside of the step keeps tensors that the step has created, the step is called again,
// to check that it does not use them. Everything else that the step depends on (training modes,
// regions, options) keeps its current value.
//
// There are no other side effects: gradients at leaves become outputs of the program, and the
// default random stream keeps its position. Throws ArgumentError if the step reads elements (so it
// depends on data), uses tensors from an earlier call of itself, uses tensors of several devices,
// changes a tensor in place that exists outside of it, or draws random numbers from another
// generator than the default one.
Program capture(const Step& step, std::span<const Tensor> inputs,
                const CaptureOptions& options = {});

// The program without its backward passes and updates, which is the part to paint. The backward of
// an operation runs in the dtype of its forward.
Program forward_part(const Program& program);
// The decisions for the calls of a forward part.
std::vector<Paint> paints_of(const Program& forward);

}  // namespace mezzo::graph

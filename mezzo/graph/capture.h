// Capturing a step: the calls that a function makes, as a Program.
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

// What was decided for a call: the dtype of its inputs, or to take what comes.
struct Paint {
  const OpDef* op = nullptr;
  std::optional<DType> dtype{};
};

struct CaptureOptions {
  // What the text form calls tensors that exist between runs, such as a network's parameters.
  std::vector<NamedTensor> names{};
  // Regions of mixed precision cast nothing, but are noted at each node, for the pass that paints.
  // Otherwise their casts become nodes like others.
  bool defer_casts = false;
  // Regions cast nothing, and the calls outside of backward passes are painted, in the order in
  // which a deferred capture of the same step had them; see paints_of().
  const std::vector<Paint>* paints = nullptr;
  // What results of the step are cast to, in their order; null and none: they stay as they come.
  const std::vector<std::optional<DType>>* result_dtypes = nullptr;
  // Parts of the program are going to be recorded; see CaptureHook::records().
  bool records = false;
};

// Calls `step` once, without computing anything: results have shapes and dtypes, and no elements.
// If something outside of the step keeps what it has made, the step is called again, to see that it
// does not go on from that. What the step asks of the world besides - training modes, regions,
// options - is what it is now.
//
// Nothing else is left behind: gradients that the step leaves at leaves become outputs of the
// program, and the default random stream is where it was. Throws ArgumentError where the step looks
// at elements (it depends on data), uses what it made when it was called before, uses tensors of
// several devices, changes a tensor in place that exists outside of it, or draws random numbers
// from another generator than the default one.
Program capture(const Step& step, std::span<const Tensor> inputs,
                const CaptureOptions& options = {});

// The program without its backward passes and updates: what is painted. The backward of an
// operation runs in the dtype of its forward.
Program forward_part(const Program& program);
// What was decided for the calls of a forward part.
std::vector<Paint> paints_of(const Program& forward);

}  // namespace mezzo::graph

#include <algorithm>

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::ref {

// Rounding to the output's dtype is done by whoever calls a reference kernel.
static void copy(const RefArgs& args) {
  std::copy_n(args.inputs[0].data, args.inputs[0].numel(), args.outputs[0].data);
}

extern const RefKernel cast = copy;
extern const RefKernel to_format = copy;

}  // namespace mezzo::kernels::ref

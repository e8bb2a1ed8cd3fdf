#include <algorithm>

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::ref {

// The caller of a reference kernel rounds to the output's dtype.
static void copy(const RefArgs& args) {
  std::copy_n(args.inputs[0].data, args.inputs[0].numel(), args.outputs[0].data);
}

extern const RefKernel cast = copy;
extern const RefKernel to_format = copy;

}  // namespace mezzo::kernels::ref

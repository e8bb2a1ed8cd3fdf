// Which calls cpu_grad_weight takes, and how a call becomes a problem.
#include <algorithm>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_columns.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"

namespace mezzo::kernels {
namespace grad_weight {

Products products_for(DType dtype) {
  if (dtype != DType::kBf16) return Products::kF32;
  if (has_tiles()) return Products::kTiles;
  return has_fast_bf16_dot() ? Products::kPairs : Products::kF32;
}

Problem problem_of(const KernelArgs& args, Products products) {
  const Tensor& grad = args.input(0);
  const Tensor& x = args.input(1);
  const auto& attrs = args.attrs<Conv2dGradAttrs>();
  return problem_of({.pass = conv::Pass::kGradWeight,
                     .x = x.shape(),
                     .weight = {grad.size(1), x.size(1), attrs.size.h, attrs.size.w},
                     .y = grad.shape(),
                     .attrs = attrs.conv,
                     .dtype = x.dtype()},
                    products);
}

Problem problem_of(const conv::Problem& of, Products products) {
  Problem p{.images = of.x[0],
            .in_channels = of.x[1],
            .out_channels = of.y[1],
            .x = {of.x[2], of.x[3]},
            .y = {of.y[2], of.y[3]},
            .kernel = {of.weight[2], of.weight[3]},
            .attrs = of.attrs,
            .products = products};
  // All images become one: separately, tiles would round each one's pixels up to a multiple of 16,
  // for example the 49 of 7 x 7 to 64.
  if (p.is_flat()) {
    p.x.h *= p.images;
    p.y.h *= p.images;
    p.images = 1;
  }
  return p;
}

}  // namespace grad_weight

bool normalises_in_grad_weight(const KernelArgs& args, std::size_t input, bool /*adds*/) {
  const grad_weight::Products products = grad_weight::products_for(args.input(1).dtype());
  return input == 1 && !joins_columns(grad_weight::problem_of(args, products));
}

}  // namespace mezzo::kernels

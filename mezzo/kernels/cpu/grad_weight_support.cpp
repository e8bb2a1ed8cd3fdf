// Which calls the panels take, and how a call becomes a problem.
#include <algorithm>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/grad_weight.h"
#include "mezzo/kernels/cpu/grad_weight_columns.h"
#include "mezzo/kernels/cpu/tiles.h"

namespace mezzo::kernels {
namespace grad_weight {

Products products_for(DType dtype) {
  if (dtype != DType::kBf16) return Products::kF32;
  if (has_tiles()) return Products::kTiles;
  return has_fast_bf16_dot() ? Products::kPairs : Products::kF32;
}

Problem problem_of(const KernelArgs& args, Products products) {
  const Shape& grad = args.input(0).shape();
  const Shape& x = args.input(1).shape();
  const auto& attrs = args.attrs<Conv2dGradAttrs>();
  Problem p{.images = x[0],
            .in_channels = x[1],
            .out_channels = grad[1],
            .x = {x[2], x[3]},
            .y = {grad[2], grad[3]},
            .kernel = attrs.size,
            .attrs = attrs.conv,
            .products = products};
  // Of each image by itself tiles round the pixels up to 16: the 49 of 7 x 7 to 64.
  if (p.is_flat()) {
    p.x.h *= p.images;
    p.y.h *= p.images;
    p.images = 1;
  }
  return p;
}

namespace {

// Panels of 16 are so empty that other kernels are faster; with dot products, that begins later,
// and with the tile unit later still (docs/benchmarks/convolutions.md).
bool are_few_channels(const Problem& p) {
  constexpr std::int64_t kMany = 64;
  if (p.products == Products::kF32) return std::min(p.in_channels, p.out_channels) < 8;
  if (p.products == Products::kPairs) {
    const std::int64_t in = joins_columns(p) ? p.kernel.w * p.in_channels : p.in_channels;
    return std::min(in, p.out_channels) < 6;
  }
  if (joins_columns(p)) return p.in_channels == 1 && p.out_channels < kMany;
  return p.in_channels < (p.out_channels < kPanel ? 4 : 3);
}

// f32 images that are worth copying: those of enough channels for the products to count. Without
// AVX-512 these are faster than oneDNN's, whose kernel reads images where they are. With it they
// are not, but where a kernel of several pixels moves by more than one: there oneDNN's takes up to
// twice as long (docs/benchmarks/convolutions.md).
bool is_slow_in_place(const KernelArgs& args) {
  constexpr std::int64_t kManyChannels = 64;
  const auto& attrs = args.attrs<Conv2dGradAttrs>();
  const bool has_pixels = attrs.size.h * attrs.size.w > 1;
  const bool strides = attrs.conv.stride.h > 1 || attrs.conv.stride.w > 1;
  return args.input(1).dtype() == DType::kF32 &&
         std::min(args.input(0).size(1), args.input(1).size(1)) >= kManyChannels &&
         (!cpu_features().avx512 || (has_pixels && strides));
}

}  // namespace
}  // namespace grad_weight

Support supports_grad_weight(const KernelArgs& args) {
  const Tensor& grad = args.input(0);
  const Tensor& x = args.input(1);
  if (!is_lower(x.dtype()) && !grad_weight::is_slow_in_place(args)) {
    return Support::no("f32 images are read where they are");
  }
  if (!has_vectors()) return Support::no("needs AVX2 or NEON");
  if (args.attrs<Conv2dGradAttrs>().conv.groups != 1) return Support::no("has groups");
  if (grad.numel() == 0 || x.numel() == 0) return Support::no("there is nothing to add up");
  const grad_weight::Products products = grad_weight::products_for(x.dtype());
  if (grad_weight::are_few_channels(grad_weight::problem_of(args, products))) {
    return Support::no("few channels");
  }
  return Support::yes();
}

bool normalises_in_grad_weight(const KernelArgs& args, std::size_t input, bool /*adds*/) {
  const grad_weight::Products products = grad_weight::products_for(args.input(1).dtype());
  return input == 1 && !joins_columns(grad_weight::problem_of(args, products));
}

}  // namespace mezzo::kernels

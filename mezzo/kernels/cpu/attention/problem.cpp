#include "mezzo/kernels/cpu/attention/problem.h"

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels::attention {

Rows::Rows(const Tensor& x)
    : tensor(x.size(3) == 1 || x.strides()[3] == 1 ? x : dense(x, Format::kContiguous)),
      sample(tensor.strides()[0]),
      position(tensor.strides()[1]),
      head(tensor.strides()[2]) {}

Mask::Mask(const Tensor& mask)
    : tensor(&mask), data(mask.address()), is_bool(mask.dtype() == DType::kBool) {
  const auto step = [&](std::size_t axis) {
    return mask.shape()[axis] == 1 ? 0 : mask.strides()[axis];
  };
  sample = step(0);
  head = step(1);
  query = step(2);
  key = step(3);
}

Problem::Problem(const KernelArgs& args, std::size_t first, std::size_t start)
    : sizes(args.input(first).shape(), args.input(first + 1).shape(),
            args.input(first + 2).shape()),
      attrs(args.attrs<AttentionAttrs>()),
      q(args.input(first)),
      k(args.input(first + 1)),
      v(args.input(first + 2)) {
  if (args.has(first + 3)) mask = Mask(args.input(first + 3));
  const Tensor parts = args.has(start) ? dense(args.input(start), Format::kContiguous) : Tensor();
  place = attrs.as_dropout().place(parts.defined() ? parts.data<std::int64_t>() : nullptr);
}

Support supports_vectors(const KernelArgs& args) {
  for (const Tensor* input : args.inputs) {
    if (!input->defined()) continue;
    const DType dtype = input->dtype();
    const bool is_other = dtype == DType::kBool || dtype == DType::kI64;  // mask, start
    if (!is_other && !is_vector_dtype(dtype)) {
      return Support::no("only f32, bf16 and f16 are vectorised");
    }
  }
  return Support::yes();
}

Support supports_dots(const KernelArgs& args) {
  if (!has_fast_bf16_dot())
    return Support::no("the CPU's dot product of bf16 is no faster than f32");
  if (args.input(0).dtype() != DType::kBf16) return Support::no("only bf16 has a dot product");
  return supports_vectors(args);
}

Support supports_tiles(const KernelArgs& args) {
  if (bf16_unit() != Bf16Unit::kTiles) return Support::no("the CPU has no tile unit");
  if (args.input(0).dtype() != DType::kBf16) return Support::no("the tile unit multiplies bf16");
  return supports_vectors(args);
}

}  // namespace mezzo::kernels::attention

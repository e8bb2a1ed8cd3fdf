#include <cstring>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

void slice_grad_kernel(const KernelArgs& args) {
  const Tensor& out = args.output();
  std::memset(out.mutable_raw_data(), 0, out.bytes());
  convert_into(args.input(0), slice_of(out, args.attrs<SliceGradAttrs>().slice));
}

}  // namespace

extern const KernelList slice_grad{{{{"cpu_copy", nullptr, slice_grad_kernel}}}};

}  // namespace mezzo::kernels::cpu

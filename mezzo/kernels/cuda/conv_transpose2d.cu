#include "mezzo/kernels/conv_transpose2d.h"
#include "mezzo/kernels/cuda/bias.cuh"

namespace mezzo::kernels::cuda {
namespace {

void add_transposed_bias(const Tensor& sums, const Tensor& bias, const Tensor& output) {
  add_bias(Launch(output), sums, dense(bias, Format::kContiguous), output);
}

void run_transposed(const KernelArgs& args) {
  // All samples at once: only large kernels keep a GPU busy.
  run_conv_transpose2d(args, add_transposed_bias, args.output().size(0));
}

}  // namespace

extern const KernelList conv_transpose2d{
    {{{"cuda_grad_input", float_dtypes_only, run_transposed}}}};

}  // namespace mezzo::kernels::cuda

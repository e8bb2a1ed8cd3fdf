#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/kernels/cuda/memory.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo::kernels::cuda {

extern const KernelList slice_grad{
    {{{"cuda_copy", nullptr, [](const KernelArgs& args) {
         const Tensor& out = args.output();
         const Launch launch(out);
         MEZZO_CUDA_CHECK(cudaMemsetAsync(out.address(), 0, out.bytes(), launch.stream()));
         copy_tensor(args.input(0), slice_of(out, args.attrs<SliceGradAttrs>().slice));
         out.bump_version();
       }}}}};

}  // namespace mezzo::kernels::cuda

#include "mezzo/kernels/activated.h"
#include "mezzo/kernels/cuda/launch.cuh"

namespace mezzo::kernels::cuda {

extern const KernelList linear_activation{
    {{{"cuda_in_place", float_dtypes_only, run_linear_activation}}}};
extern const KernelList matmul_activation{
    {{{"cuda_in_place", float_dtypes_only, run_matmul_activation}}}};
extern const KernelList conv2d_activation{
    {{{"cuda_in_place", float_dtypes_only, run_conv2d_activation}}}};

}  // namespace mezzo::kernels::cuda

#include "mezzo/kernels/activated.h"

#include "mezzo/kernels/cpu/gemm/matmul_tiles.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels::cpu {

extern const KernelList linear_activation{
    {{{"cpu_bf16_gemm", supports_linear_activation_tiles, run_linear_activation_tiles},
      {"cpu_in_place", vector_dtypes_only, run_linear_activation}}}};
extern const KernelList matmul_activation{
    {{{"cpu_in_place", vector_dtypes_only, run_matmul_activation}}}};
extern const KernelList conv2d_activation{
    {{{"cpu_in_place", vector_dtypes_only, run_conv2d_activation}}}};

}  // namespace mezzo::kernels::cpu

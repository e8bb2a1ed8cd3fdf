#include "mezzo/kernels/cpu/attention/grad.h"
#include "mezzo/kernels/cpu/attention/problem.h"

namespace mezzo::kernels::cpu {

extern const KernelList attention_grad{
    {{{"cpu_attention_tiles", kernels::attention::supports_tiles,
       kernels::attention::run_grad_tiles},
      {"cpu_attention_dots", kernels::attention::supports_dots, kernels::attention::run_grad_dots},
      {"cpu_attention", kernels::attention::supports_vectors, kernels::attention::run_grad}}}};

}  // namespace mezzo::kernels::cpu

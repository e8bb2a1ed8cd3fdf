#include "mezzo/kernels/cpu/attention/forward.h"
#include "mezzo/kernels/cpu/attention/problem.h"

namespace mezzo::kernels::cpu {

extern const KernelList attention{
    {{{"cpu_attention_tiles", kernels::attention::supports_tiles,
       kernels::attention::run_forward_tiles},
      {"cpu_attention_dots", kernels::attention::supports_dots,
       kernels::attention::run_forward_dots},
      {"cpu_attention", kernels::attention::supports_vectors, kernels::attention::run_forward}}}};

}  // namespace mezzo::kernels::cpu

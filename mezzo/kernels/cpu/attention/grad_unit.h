// What the gradient of attention is divided into, and the tensors that it reads and writes.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/attention/problem.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels::attention {

// Tiles of one sample whose terms a thread adds: ranges of query heads, which share a head of keys,
// of tiles of queries, and of tiles of keys.
struct GradUnit {
  std::int64_t sample = 0;
  std::int64_t head = 0;
  std::int64_t heads = 1;
  std::int64_t query_tile = 0;
  std::int64_t query_tiles = 1;
  std::int64_t key_tile = 0;
  std::int64_t key_tiles = 1;
};

// What is computed: a gradient is complete if the unit has all tiles that it is a sum over.
enum class Gradients : std::uint8_t { kAll, kQueries, kKeys };

struct GradTensors {
  Rows grad;
  Rows result;
  Tensor lse;
  Tensor grad_q;
  Tensor grad_k;
  Tensor grad_v;

  explicit GradTensors(const KernelArgs& args)
      : grad(args.input(AttentionGradInput::kGrad)),
        result(args.input(AttentionGradInput::kResult)),
        lse(dense(args.input(AttentionGradInput::kLse), Format::kContiguous)),
        grad_q(args.output(0)),
        grad_k(args.output(1)),
        grad_v(args.output(2)) {}
};

}  // namespace mezzo::kernels::attention

// The ways in which the gradients of a bucket are exchanged.
#pragma once

#include <memory>
#include <span>

#include "mezzo/optim/gradient_bucket.h"

namespace mezzo::optim {

// f32 in host memory: large gradients are averaged where they are, small ones gathered first.
std::unique_ptr<BucketExchange> exchange_in_place(std::span<const ExchangedParam> params);
// In any dtype and on any device: gradients are copied into one block, of which each process sums a
// part.
std::unique_ptr<BucketExchange> exchange_packed(std::span<const ExchangedParam> params,
                                                DType reduce_dtype, int processes);
// The same, where each process keeps its part of each parameter. Drops the gradients.
std::unique_ptr<BucketExchange> exchange_to_parts(std::span<const ExchangedParam> params,
                                                  DType reduce_dtype, int processes);

}  // namespace mezzo::optim

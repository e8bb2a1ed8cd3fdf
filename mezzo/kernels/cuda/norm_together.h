// Synchronized batch normalization on cards: see ops/norm_together.h.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo::kernels::cuda {

// These exchange f32 values per channel with the processes of the attributes, and all get the bits
// that processes on CPUs would: by their device engine, in the order of the kernels, or else
// through the host, for which they wait for the card. They throw UnsupportedError while work is
// recorded.

// Replaces the statistics of this process's batch by those of all, on the card. `count`: the number
// of values per channel. If the processes have different ones, this, or the next call that waits,
// throws ArgumentError in every process.
void share_statistics_on_card(const BatchNormAttrs& attrs, std::int64_t count, const Tensor& mean,
                              const Tensor& var);

// The means of two arrays over the processes, on the card. The arrays stay as they are.
std::array<Tensor, 2> means_on_card(const BatchNormAttrs& attrs, const Tensor& first,
                                    const Tensor& second);

}  // namespace mezzo::kernels::cuda

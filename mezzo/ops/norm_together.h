// What processes that train together tell each other in batch normalization, so that each
// normalises by the statistics of all their batches: known as synchronized batch normalization.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/distributed/process_group.h"

namespace mezzo {

// Numbers are float or double. Where `processes` is null, or of one, they stay as they are.

// Puts in the place of the mean and the biased variance per channel of this process's batch those
// of the batches of all, in f64 and in the order of the processes: the same bits in each. `count`
// is the number of values per channel. Throws ArgumentError, in every process, unless all have as
// many: the means of gradients and losses that they make weigh all the same, too.
template <class Number>
void share_statistics(distributed::ProcessGroup* processes, std::int64_t count,
                      std::span<Number> mean, std::span<Number> var);

// Puts in the place of numbers per channel their means over the processes, the same way.
template <class Number>
void share_means(distributed::ProcessGroup* processes, std::span<Number> first,
                 std::span<Number> second);

}  // namespace mezzo

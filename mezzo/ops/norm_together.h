// Synchronized batch normalization: processes that train together exchange their statistics, so
// that each normalises by the statistics of all their batches.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/distributed/process_group.h"

namespace mezzo {

// Number is float or double. If `processes` is null or has one process, nothing changes.

// Replaces the mean and the biased variance per channel of this process's batch by those of the
// batches of all processes. They are computed in f64 in the order of the processes, so all get the
// same bits. `count` is the number of values per channel. Throws ArgumentError in every process
// unless all have the same count, because the means of gradients and losses also give all processes
// equal weight.
template <class Number>
void share_statistics(distributed::ProcessGroup* processes, std::int64_t count,
                      std::span<Number> mean, std::span<Number> var);

// Replaces values per channel by their means over the processes, in the same way.
template <class Number>
void share_means(distributed::ProcessGroup* processes, std::span<Number> first,
                 std::span<Number> second);

}  // namespace mezzo

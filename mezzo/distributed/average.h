// Means over the processes of a group. Everybody gets the same bits, whatever MPI and its network
// are like: numbers are added up in the order of the processes, not as they arrive.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/core/named_tensor.h"
#include "mezzo/core/tensor.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::distributed {

// Puts the mean in the place of each number, added up in f32 and then multiplied by 1 / the
// number of processes: with a power of two of them the bits that gradient accumulation over as many
// micro-batches gives. Infinities and NaN of any process reach all of them, so that all see the
// overflow that one had. What each sends and receives is twice the array, less what it has itself.
void average(ProcessGroup& group, std::span<float> numbers);

double average(ProcessGroup& group, double value);
double sum(ProcessGroup& group, double value);
// True if it is for one of them.
bool any(ProcessGroup& group, bool value);

// Returns once all have called it: what each of them did before is done.
void meet(ProcessGroup& group);

// Gives the number of process 0 to all.
void broadcast(ProcessGroup& group, std::int64_t& number);
// Gives the elements of process 0 to all. Throws ArgumentError, in every process, unless all have
// the same names, shapes, dtypes and formats in the same order; and unless the tensors are dense
// and lie in the host's memory.
void broadcast(ProcessGroup& group, std::span<const NamedTensor> tensors);

}  // namespace mezzo::distributed

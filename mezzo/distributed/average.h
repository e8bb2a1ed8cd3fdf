// Means over the processes of a group. All processes get the same bits with every MPI and network,
// because elements are summed in the order of the processes, not of arrival.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/core/named_tensor.h"
#include "mezzo/core/tensor.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::distributed {

// Replaces each element by its mean, summed in f32 and then multiplied by 1 / the number of
// processes. If that number is a power of two, the bits are those of gradient accumulation over as
// many micro-batches. Infinities and NaN of any process reach all, so that all see an overflow in
// one. Each process sends and receives twice the array, less its own part.
void average(ProcessGroup& group, std::span<float> numbers);

double average(ProcessGroup& group, double value);
double sum(ProcessGroup& group, double value);
// True in all processes if `value` is true in one of them.
bool any(ProcessGroup& group, bool value);

// A barrier: returns once all processes have called it, so all their earlier work is done.
void meet(ProcessGroup& group);

// Sends the number of process 0 to all.
void broadcast(ProcessGroup& group, std::int64_t& number);
// Sends the elements of process 0 to all. Throws ArgumentError in every process unless all have the
// same names, shapes, dtypes and formats in the same order, and unless the tensors are dense.
void broadcast(ProcessGroup& group, std::span<const NamedTensor> tensors);

}  // namespace mezzo::distributed

// Exchanges of tensors between the processes of a group, on whichever device they are.
#pragma once

#include "mezzo/core/device.h"
#include "mezzo/core/tensor.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::distributed {

// Prepares exchanges of tensors on the device. All processes must call it at the same point before
// they exchange such tensors; each names its own card. Where possible, the group gets a device
// engine, through which cards exchange without the host. Otherwise tensors of the device go through
// host memory, in all processes, and a warning says why. Another call with the same devices changes
// nothing; neither does one in a group of one process, or for the CPU. Throws ArgumentError in
// every process unless all name the CPU, or all a card.
void use_device(ProcessGroup& group, Device device);

// The card that this process takes by default: of those of its host, the one at local_rank(), from
// the first again if there are fewer. Throws UnsupportedError where there is no card.
Device own_card();

// The exchanges of ProcessGroup, for dense tensors of any dtype, which must be in one block of
// memory (is_one_block()); a process's tensors are all on one device. Bytes are exchanged in the
// order in which they lie in memory. On a card a call comes after the work that the calling thread
// has queued there, and before what it queues later. Results are changed in place. Throws
// ArgumentError for other tensors, and DeviceError where an exchange fails.

// Sends the elements of process 0 to all.
void broadcast(ProcessGroup& group, const Tensor& tensor);
// Both tensors consist of size() parts of equal numbers of elements. Part r of `send` goes to
// process r, and part r of `receive` comes from process r. They have equal numbers of bytes, and no
// common memory.
void all_to_all(ProcessGroup& group, const Tensor& send, const Tensor& receive);
// Part r of `receive`, which has size() times the bytes of `send`, is what process r sends. All
// processes receive all parts. The tensors have no common memory.
void all_gather(ProcessGroup& group, const Tensor& send, const Tensor& receive);

}  // namespace mezzo::distributed

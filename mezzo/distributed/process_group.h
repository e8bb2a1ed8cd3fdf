// Processes that train one network together: each computes the gradients of its part of every
// batch, and all make the same update with their mean.
//
//   const auto processes = distributed::connect();
//   data::DataLoader loader(images, {.batch_size = 64, .drop_remainder = true,
//                                    .shard = shard_of(*processes)});
//   train::Model model(net, nn::CrossEntropyLoss(), optimizer,
//                      {.amp = {.step = {.processes = processes.get()}}});
//
//   mpirun -n 2 program
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace mezzo::distributed {

// What the processes of a group can do together. All of them call the same functions in the same
// order, with as many bytes: a process that does not come keeps the others waiting. Of one thread
// at a time.
class ProcessGroup {
 public:
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  virtual ~ProcessGroup() = default;

  int rank() const { return rank_; }  // from 0
  int size() const { return size_; }
  // True once all know that all have failed: see fail_together() in agreement.h.
  bool all_have_failed() const { return all_have_failed_; }
  void set_all_have_failed(bool value) { all_have_failed_ = value; }

  // Everybody gets the bytes of process 0.
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  // Both are `size()` parts of one length. Part r of `send` goes to process r, and part r of
  // `receive` comes from there.
  virtual void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) = 0;
  // Part r of `receive` is what process r sends, to everybody.
  virtual void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) = 0;

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
  bool all_have_failed_ = false;
};

// How many there are; null stands for this process alone.
inline int process_count(const ProcessGroup* processes) {
  return processes != nullptr ? processes->size() : 1;
}

// What all processes have, those of process 0 first; as many numbers in each.
template <class Number>
std::vector<Number> gathered(ProcessGroup& group, std::span<const Number> own) {
  std::vector<Number> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(own), std::as_writable_bytes(std::span(all)));
  return all;
}

// The processes that were started together by Open MPI's `mpirun`, that of MPICH or Intel's MPI, or
// Slurm's `srun`, whichever mezzo was built for; a process that was started by itself is a group of
// one, and no MPI is set up for it. To be called once, where the program begins, and kept until it
// ends. MPI is finished when the program ends with status 0. With another one it says nothing to
// the others, who may wait for something else: the launcher ends them.
//
// Throws UnsupportedError if others were started too, and mezzo was built without MPI or with
// another than the launcher's, and DeviceError for what MPI reports.
std::unique_ptr<ProcessGroup> connect();

}  // namespace mezzo::distributed

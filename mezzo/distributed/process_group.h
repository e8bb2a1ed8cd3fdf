// Processes that train one network together. Each computes the gradients of its part of every
// batch, and all make the same update with the mean of these gradients.
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

// Communication within a group of processes. All processes must call the same functions in the same
// order with the same number of bytes; if one does not, the others wait. Not thread-safe: one
// thread at a time.
class ProcessGroup {
 public:
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  virtual ~ProcessGroup() = default;

  int rank() const { return rank_; }  // from 0
  int size() const { return size_; }
  // True once all processes know that all have failed: see fail_together() in agreement.h.
  bool all_have_failed() const { return all_have_failed_; }
  void set_all_have_failed(bool value) { all_have_failed_ = value; }

  // Sends the bytes of process 0 to all.
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  // Both spans consist of size() parts of equal length. Part r of `send` goes to process r, and
  // part r of `receive` comes from process r.
  virtual void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) = 0;
  // Part r of `receive` is what process r sends; all processes receive all parts.
  virtual void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) = 0;

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
  bool all_have_failed_ = false;
};

// The number of processes; null stands for this process alone.
inline int process_count(const ProcessGroup* processes) {
  return processes != nullptr ? processes->size() : 1;
}

// Concatenates `own` of all processes, in order; all must have the same length.
template <class Number>
std::vector<Number> gathered(ProcessGroup& group, std::span<const Number> own) {
  std::vector<Number> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(own), std::as_writable_bytes(std::span(all)));
  return all;
}

// The group of processes that Open MPI's `mpirun`, that of MPICH or Intel's MPI, or Slurm's `srun`
// started together, whichever mezzo was built for. A process that was started alone is a group of
// one, without MPI. Call it once at the beginning of the program, and keep the group until the end.
// MPI is finalised only if the program ends with status 0. With another status the other processes
// may be waiting for this one, and the launcher ends them.
//
// Throws UnsupportedError if several processes were started but mezzo was built without MPI or with
// another MPI than the launcher's, and DeviceError for errors that MPI reports.
std::unique_ptr<ProcessGroup> connect();

}  // namespace mezzo::distributed

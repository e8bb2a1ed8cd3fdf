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
//   torchrun --no-python --nproc-per-node 2 program
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "mezzo/core/device.h"
#include "mezzo/core/device_engine.h"
#include "mezzo/distributed/posted_work.h"

namespace mezzo::distributed {

// Communication within a group of processes. All processes must call the same functions in the same
// order with the same number of bytes; if one does not, the others wait. Not thread-safe: one
// thread at a time, besides the group's own for what was posted.
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
  void broadcast(std::span<std::byte> bytes);
  // Both spans consist of size() parts of equal length. Part r of `send` goes to process r, and
  // part r of `receive` comes from process r.
  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive);
  // Part r of `receive` is what process r sends; all processes receive all parts.
  void all_gather(std::span<const std::byte> send, std::span<std::byte> receive);

  // Runs `exchange`, which calls the functions above, on a thread of the group, after everything
  // that was posted before. Calls of these functions by other threads wait for it first, so all
  // processes exchange in the order of their posts and calls.
  void post(std::function<void()> exchange);
  // Waits until everything that was posted is done. Rethrows the first exception of it; what was
  // posted after that is not run. Must be called before the group ends.
  void wait();

  // The bytes that this process has sent to others so far.
  std::int64_t bytes_sent() const { return bytes_sent_; }

  // What exchanges memory of used_device() without the host, for the functions of tensors.h; null
  // if nothing does.
  DeviceEngine* device_engine() const { return device_engine_.get(); }
  // The device for which use_device(), in tensors.h, has chosen between the two.
  std::optional<Device> used_device() const { return used_device_; }
  void set_device_engine(Device device, std::unique_ptr<DeviceEngine> engine) {
    used_device_ = device;
    device_engine_ = std::move(engine);
  }
  // Called before exchanges of so many bytes, also before those by the device engine: they wait for
  // what was posted before, and note the bytes that this process sends.
  void begin_broadcast(std::size_t bytes);
  void begin_all_to_all(std::size_t bytes);
  void begin_all_gather(std::size_t bytes);

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}
  // True on the thread of the group while the process computes. Then a wait should sleep.
  bool should_sleep() const { return is_posted() && !posted_.is_awaited(); }

 private:
  virtual void do_broadcast(std::span<std::byte> bytes) = 0;
  virtual void do_all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) = 0;
  virtual void do_all_gather(std::span<const std::byte> send, std::span<std::byte> receive) = 0;
  void begin(std::size_t bytes);
  bool is_posted() const { return posted_.is_own_thread(); }

  int rank_;
  int size_;
  bool all_have_failed_ = false;
  std::int64_t bytes_sent_ = 0;
  std::optional<Device> used_device_;
  std::unique_ptr<DeviceEngine> device_engine_;
  PostedWork posted_;  // last, for its work may use the others
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

// The processes that were started together: by Open MPI's `mpirun`, that of MPICH or Intel's MPI,
// or Slurm's `srun`, whichever mezzo was built for; or by torchrun, a script or a shell that sets
// MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, and then they exchange data by Gloo. A process
// that was started alone is a group of one, without either. Call it once at the beginning of the
// program, and keep the group until the end.
//
// MPI is finalised only if the program ends with status 0. With another status the other processes
// may be waiting for this one, and the launcher ends them. Without MPI they end each other: if one
// ends with another status, dies or is silent, the others exit at once, by a thread of their own.
// One that ends with status 0 waits for the others to do so. SIGPIPE is ignored from then on,
// unless the program handles it.
//
// Throws UnsupportedError if several processes were started but mezzo was built without what
// carries their data or with another MPI than the launcher's, ArgumentError for variables that are
// wrong, Error if the others do not come within five minutes, and DeviceError for errors that MPI
// or Gloo reports.
std::unique_ptr<ProcessGroup> connect();

// The number of this process among those of its launcher on the same host, from 0: which card of
// the host is its own. 0 if no launcher says so. Throws ArgumentError if what it says is no number.
int local_rank();

}  // namespace mezzo::distributed

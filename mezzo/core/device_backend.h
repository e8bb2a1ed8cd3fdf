// What a kind of device other than the CPU does for tensors: memory, and the ways in and out of it.
//
// core knows devices through this alone. Back ends are listed by the registry that CMake writes;
// where one is not built, there is none, and no other code differs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/core/allocator.h"
#include "mezzo/core/device.h"

namespace mezzo {

class Tensor;
class WorkRecorder;

// Times work that the calling thread queues on a device.
class DeviceTimer {
 public:
  DeviceTimer() = default;
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;
  virtual ~DeviceTimer() = default;

  // Waits for what was queued since the timer was made, and reports what went wrong in it. The time
  // that the device took for it, in ms.
  virtual double stop() = 0;
};

// A copy from the host to a device that runs beside the work of the thread that began it.
class DeviceCopy {
 public:
  DeviceCopy() = default;
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  // Joins, so that the memory may be given back.
  virtual ~DeviceCopy() = default;

  // What the calling thread queues from now on runs behind the copy.
  virtual void join() = 0;
};

// Work on a device is queued: calls return before it is done, and it is done in the order of the
// calls of a thread. Everything here throws DeviceError where the device fails.
class DeviceBackend {
 public:
  // How many devices of the kind there are.
  virtual int count() const = 0;
  // Why there are none, for people: nothing is installed, say, or what is installed is too old.
  virtual std::string why_none() const = 0;
  // Name and memory of a device, for people.
  virtual std::string describe(Device device) const = 0;

  // `bytes` of memory of the device, contents undefined; null for 0 bytes.
  virtual void* allocate(std::size_t bytes, Device device) = 0;
  virtual void release(void* block, std::size_t bytes, Device device) noexcept = 0;
  virtual MemoryStats memory_stats(Device device) const = 0;
  virtual void reset_peak(Device device) = 0;
  // Bytes that can still be asked for: what nobody uses, and what is cached.
  virtual std::size_t available(Device device) const = 0;
  // Returns all cached blocks to the system.
  virtual void trim(Device device) = 0;

  // Memory of the host that copies to devices read while the host goes on.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* block, std::size_t bytes) noexcept = 0;

  // From pinned memory this returns before the copy is done; other memory may be changed at once.
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes, Device device) = 0;
  // The same, beside what the thread queues from now on and behind what it has queued before.
  virtual std::unique_ptr<DeviceCopy> begin_copy_from_host(void* to, const void* from,
                                                           std::size_t bytes, Device device) = 0;
  // Waits until all is done that was queued before, and reports what went wrong in it.
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes, Device device) = 0;
  virtual void copy_on_device(void* to, const void* from, std::size_t bytes, Device device) = 0;

  // As fill() and copy_elements() of core/tensor.h; all tensors lie on one device.
  virtual void fill(const Tensor& tensor, double value) = 0;
  virtual void copy_elements(const Tensor& source, const Tensor& destination) = 0;

  // Null if work of the device cannot be recorded.
  virtual std::unique_ptr<WorkRecorder> make_recorder(Device device) = 0;

  // A timer of what this thread queues next.
  virtual std::unique_ptr<DeviceTimer> start_timer(Device device) = 0;

  // Waits until everything that this thread queued is done, and reports what went wrong in it.
  virtual void synchronize(Device device) = 0;

 protected:
  ~DeviceBackend() = default;
};

// The back end of a kind of device, null for the CPU and for what is not built. Defined in the
// registry that CMake writes.
DeviceBackend* find_device_backend(DeviceType type);

// The back end of a device. Throws UnsupportedError if it is not built or there is no such device.
DeviceBackend& backend_of(Device device);

// True if tensors can be on the device.
bool has_device(Device device);

// Where tensors can be: the CPU, and after it the cards that can be used.
std::vector<Device> devices();

// True if there is such a card: a program that runs on any machine begins with
// `const Device device = is_cuda_available() ? Device{DeviceType::kCuda} : kCpuDevice;`.
bool is_cuda_available();

// Waits until everything that this thread queued on the device is done.
void synchronize(Device device);

// The memory of tensors on a device.
MemoryStats memory_stats(Device device);
void reset_peak_memory(Device device);

// Memory of a device; of the CPU too.
void* allocate_on(Device device, std::size_t bytes);
void release_on(Device device, void* block, std::size_t bytes) noexcept;

// Copies bytes of one device's memory, or between the host's and a device's.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                std::size_t bytes);

}  // namespace mezzo

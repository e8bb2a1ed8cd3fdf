// The interface to devices other than the CPU: memory, copies, and synchronisation.
//
// core knows devices through this interface alone. The registry that CMake writes lists the back
// ends. Without a back end for a device there is none in the list, and no other code differs.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/core/allocator.h"
#include "mezzo/core/device.h"

namespace mezzo {

class DeviceEngineMaker;
class Tensor;
class WorkRecorder;

// Measures the time of work that the calling thread queues on a device.
class DeviceTimer {
 public:
  DeviceTimer() = default;
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;
  virtual ~DeviceTimer() = default;

  // Waits for the work queued since the timer was made, and reports its errors. Returns the time
  // that it took on the device, in ms.
  virtual double stop() = 0;
};

// A copy from the host to a device, concurrent with other work of the thread that began it.
class DeviceCopy {
 public:
  DeviceCopy() = default;
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  // Calls join(), so that the memory may be freed.
  virtual ~DeviceCopy() = default;

  // Work that the calling thread queues from now on runs after the copy.
  virtual void join() = 0;
};

// Work on a device is queued: calls return before it is done, and the calls of a thread are done in
// order. All functions here throw DeviceError where the device fails.
class DeviceBackend {
 public:
  // The number of devices of this kind.
  virtual int count() const = 0;
  // Why there are no devices, as text for users: for example, a driver is missing or too old.
  virtual std::string why_none() const = 0;
  // Name and memory of a device, as text for users.
  virtual std::string describe(Device device) const = 0;

  // `bytes` of memory of the device, contents undefined; null for 0 bytes.
  virtual void* allocate(std::size_t bytes, Device device) = 0;
  virtual void release(void* block, std::size_t bytes, Device device) noexcept = 0;
  virtual MemoryStats memory_stats(Device device) const = 0;
  virtual void reset_peak(Device device) = 0;
  // Bytes that can still be allocated: free memory and cached blocks.
  virtual std::size_t available(Device device) const = 0;
  // Returns all cached blocks to the system.
  virtual void trim(Device device) = 0;

  // Pinned host memory, from which copies to devices run while the host goes on.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* block, std::size_t bytes) noexcept = 0;

  // Pinned memory may be read after this returns. Other memory may be changed at once.
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes, Device device) = 0;
  // Like copy_from_host(), but after the work that the thread has queued so far and concurrent with
  // what it queues next.
  virtual std::unique_ptr<DeviceCopy> begin_copy_from_host(void* to, const void* from,
                                                           std::size_t bytes, Device device) = 0;
  // Waits until all work queued before is done, and reports its errors.
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes, Device device) = 0;
  virtual void copy_on_device(void* to, const void* from, std::size_t bytes, Device device) = 0;

  // Like fill() and copy_elements() of core/tensor.h; all tensors lie on one device.
  virtual void fill(const Tensor& tensor, double value) = 0;
  virtual void copy_elements(const Tensor& source, const Tensor& destination) = 0;

  // Null if work on the device cannot be recorded.
  virtual std::unique_ptr<WorkRecorder> make_recorder(Device device) = 0;

  // Starts a timer for the work that this thread queues next.
  virtual std::unique_ptr<DeviceTimer> start_timer(Device device) = 0;

  // Makes what exchanges memory of such devices between processes (core/device_engine.h); null if
  // the build has no library for that.
  virtual const DeviceEngineMaker* engine_maker() const { return nullptr; }

  // Waits until everything that this thread queued is done, and reports its errors.
  virtual void synchronize(Device device) = 0;

 protected:
  ~DeviceBackend() = default;
};

// The back end of a kind of device; null for the CPU and for devices that mezzo was built without.
// Defined in the registry that CMake writes.
DeviceBackend* find_device_backend(DeviceType type);

// The back end of a device. Throws UnsupportedError if there is no such back end or device.
DeviceBackend& backend_of(Device device);

// True if tensors can be on the device.
bool has_device(Device device);

// The devices that tensors can be on: the CPU, followed by the usable GPUs.
std::vector<Device> devices();

// True if there is a usable GPU. A program that runs on any machine begins with `const Device
// device = is_cuda_available() ? Device{DeviceType::kCuda} : kCpuDevice;`.
bool is_cuda_available();

// Waits until everything that this thread queued on the device is done.
void synchronize(Device device);

// Statistics of the memory of tensors on a device.
MemoryStats memory_stats(Device device);
void reset_peak_memory(Device device);

// Memory of a device, including the CPU.
void* allocate_on(Device device, std::size_t bytes);
void release_on(Device device, void* block, std::size_t bytes) noexcept;

// Copies bytes within one device's memory, or between the host's and a device's.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                std::size_t bytes);

}  // namespace mezzo

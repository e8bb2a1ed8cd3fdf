// What a thread has on a card: a queue of work, and handles of libraries that work in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cuda_runtime_api.h>

#include "mezzo/core/device.h"

struct cudnnContext;
struct cublasLtContext;

namespace mezzo::kernels::cuda {

// As many devices as there can be, and a device's place among them.
inline constexpr std::size_t kMostDevices = 128;
inline std::size_t place_of(Device device) { return static_cast<std::uint8_t>(device.index); }

// Makes a device the thread's current one while it exists.
class OnDevice {
 public:
  explicit OnDevice(Device device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

// One for each thread and device, made when it is first asked for and kept to the end. All kernels
// of a thread run in its stream, so that they need not wait for each other on the host. A tensor
// that another thread made is ready once that thread has called synchronize().
class Context {
 public:
  explicit Context(Device device);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  // For copies from the host that run beside the work in stream(). Made at its first use.
  cudaStream_t copy_stream();
  int multiprocessors() const { return multiprocessors_; }
  // Made at their first use: they take some 100 ms and memory of the card.
  cudnnContext* cudnn();
  cublasLtContext* cublas();

 private:
  Device device_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t copy_stream_ = nullptr;
  int multiprocessors_ = 1;
  cudnnContext* cudnn_ = nullptr;
  cublasLtContext* cublas_ = nullptr;
};

// The calling thread's context on a device.
Context& context_of(Device device);

// How many cards can be used; 0 without a driver.
int device_count();
// Why that is 0.
std::string why_no_device();

// Memory that a kernel needs while it runs, from the caching allocator: it is handed out again only
// to work that is queued later.
class Scratch {
 public:
  Scratch(std::size_t bytes, Device device);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_;
  std::size_t bytes_;
  Device device_;
};

}  // namespace mezzo::kernels::cuda

// A thread's context on a GPU: its stream, and library handles that work in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cuda_runtime_api.h>

#include "mezzo/core/device.h"

struct cudnnContext;
struct cublasLtContext;

namespace mezzo::kernels::cuda {

// The most devices there can be, and a device's index among them.
inline constexpr std::size_t kMostDevices = 128;
inline std::size_t place_of(Device device) { return static_cast<std::uint8_t>(device.index); }

// Makes a device current for the calling thread while this exists.
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

// One context per thread and device, created at its first use and kept to the end. All kernels of a
// thread run in its stream, so that they need not wait for each other on the host. A tensor that
// another thread made is ready once that thread has called synchronize().
class Context {
 public:
  explicit Context(Device device);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  // The stream for copies from the host that run beside the work in stream(). Created at its first
  // use.
  cudaStream_t copy_stream();
  int multiprocessors() const { return multiprocessors_; }
  // 10 times the major part of the compute capability, and its minor part: 90 for an H200.
  int capability() const { return capability_; }
  // Created at their first use: they take some 100 ms, and memory of the GPU.
  cudnnContext* cudnn();
  cublasLtContext* cublas();

 private:
  Device device_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t copy_stream_ = nullptr;
  int multiprocessors_ = 1;
  int capability_ = 0;
  cudnnContext* cudnn_ = nullptr;
  cublasLtContext* cublas_ = nullptr;
};

// The calling thread's context on a device.
Context& context_of(Device device);

// The number of usable GPUs; 0 without a driver.
int device_count();
// Why device_count() is 0.
std::string why_no_device();

// Scratch memory for a running kernel, from the caching allocator. It is handed out again only to
// work that is queued later.
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

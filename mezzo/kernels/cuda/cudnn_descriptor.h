// cuDNN's descriptors, which are built from attributes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/cudnn_library.h"

namespace mezzo::kernels::cuda {

// A call that cuDNN refused. Engines may refuse a problem at any step of the setup, which is not a
// failure: it is caught where engines are tried.
class CudnnRefusal : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

inline void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  std::array<char, 512> why{};
  cudnn_library().cudnnGetLastErrorString(why.data(), why.size());
  why.back() = '\0';
  throw CudnnRefusal(concat("[cuda] ", call,
                            " failed: ", cudnn_library().cudnnGetErrorString(status),
                            why[0] != '\0' ? ", " : "", why.data()));
}

// A descriptor of cuDNN's backend interface. Movable, not copyable.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t raw = nullptr;
    check_cudnn(cudnn_library().cudnnBackendCreateDescriptor(type, &raw),
                "cudnnBackendCreateDescriptor");
    raw_.reset(raw);
  }

  cudnnBackendDescriptor_t get() const { return raw_.get(); }

  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::span<const T> values) {
    check_cudnn(cudnn_library().cudnnBackendSetAttribute(
                    get(), name, type, static_cast<std::int64_t>(values.size()), values.data()),
                "cudnnBackendSetAttribute");
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, std::span<const T>(&value, 1));
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
  }
  void set_numbers(cudnnBackendAttributeName_t name, std::span<const std::int64_t> numbers) {
    set(name, CUDNN_TYPE_INT64, numbers);
  }
  void finalize() {
    check_cudnn(cudnn_library().cudnnBackendFinalize(get()), "cudnnBackendFinalize");
  }

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t raw) const {
      cudnn_library().cudnnBackendDestroyDescriptor(raw);
    }
  };
  std::unique_ptr<std::remove_pointer_t<cudnnBackendDescriptor_t>, Destroy> raw_;
};

}  // namespace mezzo::kernels::cuda

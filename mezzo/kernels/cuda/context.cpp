#include "mezzo/kernels/cuda/context.h"

#include <array>

#include "mezzo/core/device_backend.h"
#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/cublaslt_library.h"
#include "mezzo/kernels/cuda/cudnn_library.h"

namespace mezzo::kernels::cuda {
namespace {

int count_devices() {
  int count = 0;
  // Without a GPU or a driver this fails, which is an answer and not an error.
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return count;
}

}  // namespace

int device_count() {
  static const int count = count_devices();
  return count;
}

std::string why_no_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  int driver = 0;
  int wanted = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));  // 0 without a driver
  static_cast<void>(cudaRuntimeGetVersion(&wanted));
  if (status == cudaErrorInsufficientDriver && driver == 0) return "no NVIDIA driver is installed";
  if (status != cudaErrorInsufficientDriver) return cudaGetErrorString(status);
  const auto text = [](int version) { return concat(version / 1000, ".", version % 1000 / 10); };
  return concat("the NVIDIA driver is for CUDA ", text(driver), " at most, and this build for ",
                text(wanted));
}

OnDevice::OnDevice(Device device) {
  MEZZO_CUDA_CHECK(cudaGetDevice(&previous_));
  changed_ = previous_ != device.index;
  if (changed_) MEZZO_CUDA_CHECK(cudaSetDevice(device.index));
}

OnDevice::~OnDevice() {
  if (changed_) static_cast<void>(cudaSetDevice(previous_));
}

Context::Context(Device device) : device_(device) {
  const OnDevice on(device);
  // Non-blocking: otherwise the default stream of other code would wait for this one, and the
  // reverse.
  MEZZO_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    MEZZO_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device.index));
    return value;
  };
  multiprocessors_ = attribute(cudaDevAttrMultiProcessorCount);
  capability_ = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                attribute(cudaDevAttrComputeCapabilityMinor);
}

cudaStream_t Context::copy_stream() {
  if (copy_stream_ != nullptr) return copy_stream_;
  const OnDevice on(device_);
  MEZZO_CUDA_CHECK(cudaStreamCreateWithFlags(&copy_stream_, cudaStreamNonBlocking));
  return copy_stream_;
}

cudnnContext* Context::cudnn() {
  if (cudnn_ != nullptr) return cudnn_;
  const Cudnn& library = cudnn_library();
  const OnDevice on(device_);
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t made = library.cudnnCreate(&handle);
  if (made != CUDNN_STATUS_SUCCESS) {
    fail<DeviceError>("cuda", "cudnnCreate failed: ", library.cudnnGetErrorString(made));
  }
  const cudnnStatus_t set = library.cudnnSetStream(handle, stream_);
  if (set != CUDNN_STATUS_SUCCESS) {
    library.cudnnDestroy(handle);
    fail<DeviceError>("cuda", "cudnnSetStream failed: ", library.cudnnGetErrorString(set));
  }
  return cudnn_ = handle;
}

cublasLtContext* Context::cublas() {
  if (cublas_ != nullptr) return cublas_;
  const CublasLt& library = cublaslt_library();
  const OnDevice on(device_);
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t made = library.cublasLtCreate(&handle);
  if (made != CUBLAS_STATUS_SUCCESS) {
    fail<DeviceError>("cuda", "cublasLtCreate failed: ", library.cublasLtGetStatusString(made));
  }
  return cublas_ = handle;
}

Context& context_of(Device device) {
  // Never destroyed: tensors in static variables release memory after a thread's objects are gone,
  // and the allocator keeps blocks for the stream of a thread that has ended.
  thread_local std::array<Context*, kMostDevices> contexts{};
  Context*& context = contexts[place_of(device)];
  if (context == nullptr) context = new Context(device);
  return *context;
}

Scratch::Scratch(std::size_t bytes, Device device)
    : data_(allocate_on(device, bytes)), bytes_(bytes), device_(device) {}

Scratch::~Scratch() { release_on(device_, data_, bytes_); }

}  // namespace mezzo::kernels::cuda

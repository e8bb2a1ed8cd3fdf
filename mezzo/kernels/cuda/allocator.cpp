#include "mezzo/kernels/cuda/allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "mezzo/core/allocation_label.h"
#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/context.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr std::size_t kAlignment = 256;  // cudaMalloc's alignment; 16-byte loads need 16

std::size_t round_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Rounds up to the size of a block: there are eight sizes per power of two, so a block wastes at
// most an eighth.
std::size_t class_of(std::size_t bytes) {
  bytes = std::max(bytes, 8 * kAlignment);
  const auto shift = static_cast<unsigned>(std::bit_width(bytes)) - 4;
  return (bytes + (std::size_t{1} << shift) - 1) >> shift << shift;
}

// Allows calls that may wait for the GPU while a thread records work (recorder.h). CUDA would end
// the recording otherwise; these calls do not wait for what is recorded.
class WithinRecording {
 public:
  WithinRecording() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~WithinRecording() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  WithinRecording(const WithinRecording&) = delete;
  WithinRecording& operator=(const WithinRecording&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

void* take(std::size_t bytes) {
  const WithinRecording allowed;
  void* block = nullptr;
  const cudaError_t status = cudaMalloc(&block, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // or the next call would report it again
    return nullptr;
  }
  // Other errors do not mean a lack of memory: usually, a kernel has failed.
  check_cuda(status, "cudaMalloc");
  return block;
}

void give_back(void* block) {
  if (cudaFree(block) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

bool is_recorded(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
         status != cudaStreamCaptureStatusNone;
}

// False if the streams could not be ordered on the GPU.
bool order_by_event(cudaStream_t waits, cudaStream_t done) {
  cudaEvent_t event = nullptr;
  // If another thread is recording in `waits`, the recording cannot wait for work outside of it.
  if (is_recorded(waits)) return false;
  if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) return false;
  const bool is_ordered = cudaEventRecord(event, done) == cudaSuccess &&
                          cudaStreamWaitEvent(waits, event, 0) == cudaSuccess;
  static_cast<void>(cudaEventDestroy(event));  // CUDA keeps the event until it has happened
  return is_ordered;
}

void order(cudaStream_t waits, cudaStream_t done) {
  if (order_by_event(waits, done)) return;
  static_cast<void>(cudaStreamSynchronize(done));
  static_cast<void>(cudaGetLastError());  // or the next call would report it again
}

Caching caching_by_environment() {
  const char* text = std::getenv("MEZZO_CUDA_CACHE");  // NOLINT(concurrency-mt-unsafe)
  if (text != nullptr) return std::string_view(text) == "0" ? Caching::kOff : Caching::kOn;
#ifdef __SANITIZE_ADDRESS__
  return Caching::kOff;
#else
  return Caching::kOn;
#endif
}

}  // namespace

extern const DeviceMemory kCudaMemory{take, give_back, order};

CudaAllocator::Pool& CudaAllocator::pool_of(cudaStream_t stream) {
  for (Pool& pool : pools_) {
    if (pool.stream == stream) return pool;
  }
  pools_.push_back({stream, {}});
  return pools_.back();
}

void* CudaAllocator::take_cached(std::size_t size_class, cudaStream_t stream) {
  Pool& pool = pool_of(stream);
  const auto found = pool.free.find(size_class);
  if (found == pool.free.end() || found->second.empty()) return nullptr;
  void* block = found->second.back();
  found->second.pop_back();
  stats_.cached_bytes -= static_cast<std::int64_t>(size_class);
  return block;
}

void* CudaAllocator::allocate(std::size_t bytes, cudaStream_t stream, WhenFull when_full) {
  if (bytes == 0) return nullptr;
  const std::size_t size_class = caching_ == Caching::kOn ? class_of(bytes) : bytes;
  const std::lock_guard lock(mutex_);
  void* block = take_cached(size_class, stream);
  if (block == nullptr) {
    ++stats_.fresh;
    block = memory_.take(size_class);
    if (block == nullptr && when_full == WhenFull::kTrim) {
      trim_locked();
      block = memory_.take(size_class);
    }
    if (block == nullptr) {
      fail<DeviceError>("cuda", "out of memory on ", device_, ": ", bytes, " bytes requested, ",
                        stats_.live_bytes, " in use, at most ", stats_.peak_bytes,
                        " so far; the largest blocks in use: ", largest_blocks(),
                        ". Use a smaller batch or image size, 16 bits, or recompute()");
    }
  }
  live_[block] = {bytes, size_class, stream, false, AllocationLabel::current()};
  ++stats_.allocations;
  stats_.live_bytes += static_cast<std::int64_t>(round_up(bytes));
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
  return block;
}

void CudaAllocator::release(void* block, std::size_t /*bytes*/, cudaStream_t stream) noexcept {
  if (block == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(block);
  if (found == live_.end()) return;
  if (found->second.is_kept) return;
  if (found->second.stream != stream) memory_.order(found->second.stream, stream);
  put_back(found);
}

void CudaAllocator::put_back(std::unordered_map<void*, Live>::iterator block) noexcept {
  const auto [data, live] = *block;
  live_.erase(block);
  stats_.live_bytes -= static_cast<std::int64_t>(round_up(live.asked));
  if (caching_ == Caching::kOff) return memory_.give_back(data);
  stats_.cached_bytes += static_cast<std::int64_t>(live.size_class);
  pool_of(live.stream).free[live.size_class].push_back(data);
}

void CudaAllocator::keep(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(block);
  if (found != live_.end()) found->second.is_kept = true;
}

void CudaAllocator::give_up(void* block) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(block);
  if (found != live_.end()) put_back(found);
}

// For example `3 of 822083584 bytes (conv2d), 2 of 411041792`: a network's layers have many blocks
// of one size.
std::string CudaAllocator::largest_blocks() const {
  constexpr std::size_t kMost = 5;
  std::map<std::pair<std::size_t, std::string_view>, int, std::greater<>> counts;
  for (const auto& [block, live] : live_) {
    ++counts[{live.asked, live.label != nullptr ? live.label : ""}];
  }
  std::string text;
  std::size_t listed = 0;
  for (const auto& [kind, count] : counts) {
    if (++listed > kMost) break;
    const auto& [asked, label] = kind;
    text += concat(text.empty() ? "" : ", ", count, " of ", asked, listed == 1 ? " bytes" : "");
    if (!label.empty()) text += concat(" (", label, ")");
  }
  return text.empty() ? "none" : text;
}

MemoryStats CudaAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CudaAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.live_bytes;
}

void CudaAllocator::trim() noexcept {
  const std::lock_guard lock(mutex_);
  trim_locked();
}

void CudaAllocator::trim_locked() noexcept {
  for (Pool& pool : pools_) {
    for (auto& [size_class, blocks] : pool.free) {
      for (void* block : blocks) memory_.give_back(block);
    }
    pool.free.clear();
  }
  stats_.cached_bytes = 0;
}

CudaAllocator& allocator_of(Device device) {
  // Never destroyed: tensors in static variables may outlive every other static.
  static auto* allocators = new std::array<std::unique_ptr<CudaAllocator>, kMostDevices>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::unique_ptr<CudaAllocator>& found = (*allocators)[place_of(device)];
  if (found == nullptr) {
    static const Caching caching = caching_by_environment();
    found = std::make_unique<CudaAllocator>(device, kCudaMemory, caching);
  }
  return *found;
}

}  // namespace mezzo::kernels::cuda

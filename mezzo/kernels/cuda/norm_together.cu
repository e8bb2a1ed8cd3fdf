#include <cstddef>
#include <span>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/device_engine.h"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/kernels/cuda/norm_together.h"
#include "mezzo/kernels/cuda/recorder.h"
#include "mezzo/kernels/cuda/report.h"
#include "mezzo/ops/norm_together.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr const char* kExchanges = "it exchanges with other processes";

// Two arrays of a card, in pinned memory of the host.
class OnHost {
 public:
  OnHost(const Tensor& first, const Tensor& second)
      : channels_(static_cast<std::size_t>(first.numel())),
        memory_(empty_pinned({2, first.numel()})),
        numbers_(memory_.mutable_data<float>(), 2 * channels_) {
    const Device card = first.device();
    copy_bytes(this->first().data(), kCpuDevice, first.address(), card, first.bytes());
    copy_bytes(this->second().data(), kCpuDevice, second.address(), card, second.bytes());
  }

  std::span<float> first() { return numbers_.first(channels_); }
  std::span<float> second() { return numbers_.last(channels_); }

  // Queues copies to the card.
  void copy_to(const Tensor& first, const Tensor& second) {
    const Device card = first.device();
    copy_bytes(first.address(), card, this->first().data(), kCpuDevice, first.bytes());
    copy_bytes(second.address(), card, this->second().data(), kCpuDevice, second.bytes());
  }

 private:
  std::size_t channels_;
  Tensor memory_;
  std::span<float> numbers_;
};

// Numbers of all processes on a card, in f64: for each process a count, and two arrays of values
// per channel.
struct SharedNumbers {
  const double* all;
  int processes;
  std::int64_t channels;

  __host__ __device__ std::int64_t length() const { return 1 + 2 * channels; }
  __device__ double count(int process) const { return all[process * length()]; }
  __device__ double first(int process, std::int64_t c) const {
    return all[process * length() + 1 + c];
  }
  // The steps of ops/norm_together.cpp, none of them contracted, so that the bits are the same.
  __device__ double mean_first(std::int64_t c) const {
    double sum = 0;
    for (int p = 0; p < processes; ++p) sum = __dadd_rn(sum, first(p, c));
    return sum / processes;
  }
  __device__ double mean_second(std::int64_t c) const { return mean_first(channels + c); }
};

__global__ void pack_kernel(double count, const float* first, const float* second,
                            std::int64_t channels, double* own) {
  if (grid_first() == 0) own[0] = count;
  for (std::int64_t c = grid_first(); c < channels; c += grid_step()) {
    own[1 + c] = first[c];
    own[1 + channels + c] = second[c];
  }
}

__global__ void shared_statistics_kernel(SharedNumbers shared, Report* report, float* mean,
                                         float* var) {
  for (int p = 1; grid_first() == 0 && p < shared.processes; ++p) {
    const double count = shared.count(p);
    if (count == shared.count(0)) continue;
    report_fault(report, Fault::kCount, p, static_cast<std::int64_t>(count),
                 static_cast<std::int64_t>(shared.count(0)));
  }
  for (std::int64_t c = grid_first(); c < shared.channels; c += grid_step()) {
    const double center = shared.mean_first(c);
    double between = 0;
    for (int p = 0; p < shared.processes; ++p) {
      const double distance = __dsub_rn(shared.first(p, c), center);
      between = __dadd_rn(between, __dmul_rn(distance, distance));
    }
    between /= shared.processes;
    mean[c] = static_cast<float>(center);
    var[c] = static_cast<float>(__dadd_rn(shared.mean_second(c), between));
  }
}

__global__ void shared_means_kernel(SharedNumbers shared, float* first, float* second) {
  for (std::int64_t c = grid_first(); c < shared.channels; c += grid_step()) {
    first[c] = static_cast<float>(shared.mean_first(c));
    second[c] = static_cast<float>(shared.mean_second(c));
  }
}

// The processes' own exchange between cards; null if they have none for this one.
DeviceEngine* engine_of(const BatchNormAttrs& attrs, const Tensor& tensor) {
  DeviceEngine* engine = attrs.processes->device_engine();
  return engine != nullptr && engine->device() == tensor.device() ? engine : nullptr;
}

// Exchanges the numbers of all processes, and calls use(launch, numbers), which queues a kernel.
template <class Use>
void exchange_on_card(const BatchNormAttrs& attrs, DeviceEngine& engine, std::int64_t count,
                      const Tensor& first, const Tensor& second, const Use& use) {
  const Launch launch(first);
  const std::int64_t channels = first.numel();
  SharedNumbers shared{nullptr, attrs.processes->size(), channels};
  const std::size_t bytes = static_cast<std::size_t>(shared.length()) * sizeof(double);
  const Scratch own(bytes, launch.device());
  const Scratch gathered(static_cast<std::size_t>(shared.processes) * bytes, launch.device());
  const int blocks = launch.blocks_for(channels);
  pack_kernel<<<blocks, kThreads, 0, launch.stream()>>>(
      static_cast<double>(count), in<float>(first), in<float>(second), channels, own.as<double>());
  check_launch("pack_kernel");
  attrs.processes->begin_all_gather(bytes);
  engine.all_gather(own.as(), gathered.as(), bytes);
  shared.all = gathered.as<const double>();
  use(launch, shared, blocks);
}

}  // namespace

void share_statistics_on_card(const BatchNormAttrs& attrs, std::int64_t count, const Tensor& mean,
                              const Tensor& var) {
  refuse_while_recording(kExchanges);
  DeviceEngine* engine = engine_of(attrs, mean);
  if (engine == nullptr) {
    OnHost host(mean, var);
    share_statistics(attrs.processes, count, host.first(), host.second());
    return host.copy_to(mean, var);
  }
  exchange_on_card(attrs, *engine, count, mean, var,
                   [&](const Launch& launch, const SharedNumbers& shared, int blocks) {
                     Report* report = report_of(launch.device());
                     shared_statistics_kernel<<<blocks, kThreads, 0, launch.stream()>>>(
                         shared, report, out<float>(mean), out<float>(var));
                     check_launch("shared_statistics_kernel");
                   });
}

std::array<Tensor, 2> means_on_card(const BatchNormAttrs& attrs, const Tensor& first,
                                    const Tensor& second) {
  refuse_while_recording(kExchanges);
  const auto like = [](const Tensor& tensor) {
    return empty(tensor.shape(), DType::kF32, Format::kContiguous, tensor.device());
  };
  std::array<Tensor, 2> means{like(first), like(second)};
  DeviceEngine* engine = engine_of(attrs, first);
  if (engine == nullptr) {
    OnHost host(first, second);
    share_means(attrs.processes, host.first(), host.second());
    host.copy_to(means[0], means[1]);
    return means;
  }
  exchange_on_card(attrs, *engine, 0, first, second,
                   [&](const Launch& launch, const SharedNumbers& shared, int blocks) {
                     shared_means_kernel<<<blocks, kThreads, 0, launch.stream()>>>(
                         shared, out<float>(means[0]), out<float>(means[1]));
                     check_launch("shared_means_kernel");
                   });
  return means;
}

}  // namespace mezzo::kernels::cuda

#include "mezzo/core/device.h"

#include <charconv>
#include <cstring>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/error.h"

namespace mezzo {

void append_text(std::string& out, Device device) {
  if (device.is_cpu()) {
    out += "cpu";
    return;
  }
  out += "cuda";
  if (device.index > 0) out += concat(":", static_cast<int>(device.index));
}

std::optional<Device> parse_device(std::string_view name) {
  if (name == "cpu") return kCpuDevice;
  if (name == "cuda") return Device{DeviceType::kCuda, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  constexpr int kMost = 127;
  int index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (index < 0 || index > kMost) return std::nullopt;
  return Device{DeviceType::kCuda, static_cast<std::int8_t>(index)};
}

DeviceBackend& backend_of(Device device) {
  DeviceBackend* backend = find_device_backend(device.type);
  if (backend == nullptr) {
    fail<UnsupportedError>("device", "there is no ", device,
                           " in this build. Build with MEZZO_CUDA=ON, or use cpu");
  }
  const int count = backend->count();
  if (count == 0) {
    fail<UnsupportedError>("device", "there is no ", device, ": ", backend->why_none(),
                           ". Use cpu");
  }
  if (device.index < 0 || device.index >= count) {
    fail<UnsupportedError>("device", "there is no ", device, ": this machine has ", count,
                           " usable CUDA GPUs. Use cpu");
  }
  return *backend;
}

bool has_device(Device device) {
  if (device.is_cpu()) return true;
  const DeviceBackend* backend = find_device_backend(device.type);
  return backend != nullptr && device.index >= 0 && device.index < backend->count();
}

std::vector<Device> devices() {
  std::vector<Device> result{kCpuDevice};
  const DeviceBackend* cards = find_device_backend(DeviceType::kCuda);
  for (int i = 0; cards != nullptr && i < cards->count(); ++i) {
    result.push_back({DeviceType::kCuda, static_cast<std::int8_t>(i)});
  }
  return result;
}

bool is_cuda_available() { return has_device({DeviceType::kCuda, 0}); }

void synchronize(Device device) {
  if (!device.is_cpu()) backend_of(device).synchronize(device);
}

MemoryStats memory_stats(Device device) {
  if (device.is_cpu()) return cpu_allocator().stats();
  return backend_of(device).memory_stats(device);
}

void reset_peak_memory(Device device) {
  if (device.is_cpu()) return cpu_allocator().reset_peak();
  backend_of(device).reset_peak(device);
}

void* allocate_on(Device device, std::size_t bytes) {
  if (device.is_cpu()) return cpu_allocator().allocate(bytes);
  return backend_of(device).allocate(bytes, device);
}

void release_on(Device device, void* block, std::size_t bytes) noexcept {
  if (device.is_cpu()) return cpu_allocator().release(block, bytes);
  // The block came from the back end, so the back end exists.
  if (block != nullptr) find_device_backend(device.type)->release(block, bytes, device);
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                std::size_t bytes) {
  if (bytes == 0) return;
  const bool to_host = to_device.is_cpu();
  const bool from_host = from_device.is_cpu();
  if (to_host && from_host) {
    std::memcpy(to, from, bytes);
  } else if (to_host) {
    backend_of(from_device).copy_to_host(to, from, bytes, from_device);
  } else if (from_host) {
    backend_of(to_device).copy_from_host(to, from, bytes, to_device);
  } else {
    check_arg(to_device == from_device, "device", "memory is copied between devices, from ",
              from_device, " to ", to_device, ", only through the host. Use to(kCpuDevice) first");
    backend_of(to_device).copy_on_device(to, from, bytes, to_device);
  }
}

}  // namespace mezzo

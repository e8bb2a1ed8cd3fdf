// Device: where a tensor's memory lies and where its kernels run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mezzo {

enum class DeviceType : std::uint8_t { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  std::int8_t index = 0;

  bool is_cpu() const { return type == DeviceType::kCpu; }
  bool operator==(const Device&) const = default;
};

inline constexpr Device kCpuDevice{};

// Appends the device's name: `cpu`, `cuda`, `cuda:1`.
void append_text(std::string& out, Device device);

// Parses a device's name; `cuda` is the first GPU. Empty if the name is unknown.
std::optional<Device> parse_device(std::string_view name);

}  // namespace mezzo

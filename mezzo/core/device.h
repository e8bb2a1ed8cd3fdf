// Where a tensor's memory lies and its kernels run.
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

// `cpu`, `cuda`, `cuda:1`.
void append_text(std::string& out, Device device);

// The device of that name; `cuda` is the first card. Empty if unknown.
std::optional<Device> parse_device(std::string_view name);

}  // namespace mezzo

// Where a tensor's memory lies and its kernels run.
#pragma once

#include <cstdint>
#include <string>

namespace mezzo {

enum class DeviceType : std::uint8_t { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  std::int8_t index = 0;

  bool operator==(const Device&) const = default;
};

inline void append_text(std::string& out, Device device) {
  out += device.type == DeviceType::kCpu ? "cpu" : "cuda";
}

}  // namespace mezzo

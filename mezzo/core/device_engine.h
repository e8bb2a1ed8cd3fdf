// DeviceEngine: exchanges between the memories of devices of several processes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mezzo/core/device.h"

namespace mezzo {

// One process's part of such exchanges, as a library for devices does them. All processes call the
// same functions in the same order with the same numbers of bytes. The addresses are those of
// memory of device(), and a call is queued after the work that the calling thread has queued there.
// Throws DeviceError where the device or the library fails.
class DeviceEngine {
 public:
  DeviceEngine() = default;
  DeviceEngine(const DeviceEngine&) = delete;
  DeviceEngine& operator=(const DeviceEngine&) = delete;
  virtual ~DeviceEngine() = default;

  virtual Device device() const = 0;

  // Sends the bytes of process 0 to all.
  virtual void broadcast(void* data, std::size_t bytes) = 0;
  // Both blocks consist of one part of `part_bytes` for each process. Part r of `send` goes to
  // process r, and part r of `receive` comes from process r.
  virtual void all_to_all(const void* send, void* receive, std::size_t part_bytes) = 0;
  // Part r of `receive` is what process r sends, `part_bytes` each; all processes receive all
  // parts.
  virtual void all_gather(const void* send, void* receive, std::size_t part_bytes) = 0;
};

// Makes such engines. Throws DeviceError where the library is missing or fails.
class DeviceEngineMaker {
 public:
  // Tells a device from all others, on all machines.
  virtual std::string identity_of(Device device) const = 0;
  // Throws unless engines can be made here.
  virtual void check() const = 0;
  // By this the engines of a group find each other. One process makes it, and sends it to all.
  virtual std::vector<std::byte> make_key() const = 0;
  // Waits until all processes have called it, each with its number and the same key.
  virtual std::unique_ptr<DeviceEngine> make(std::span<const std::byte> key, int rank, int size,
                                             Device device) const = 0;

 protected:
  ~DeviceEngineMaker() = default;
};

}  // namespace mezzo

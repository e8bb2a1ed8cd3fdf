// Saving and restoring the buffers of a step that may be skipped.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/amp/buffer_snapshot.h"

namespace mezzo::amp {

// Copies the buffers at the beginning of a step, which may be captured, and restores them.
class StepBuffers {
 public:
  // Begins a step; nothing is copied yet.
  void begin() { taken_ = Taken::kNothing; }
  // Copies the buffers of these networks, which must outlive this object, at this point of the
  // step.
  void take(std::span<nn::Module* const> nets);
  // Called after take() in a step, when the copies on devices are known to be queued. A replay
  // queues them with its launch and does not call back.
  void complete();
  // Restores the buffers that were copied.
  void restore() const;

 private:
  enum class Taken : std::uint8_t { kNothing, kOnHost, kEverywhere };

  BufferSnapshot snapshot_;
  Taken taken_ = Taken::kNothing;
};

}  // namespace mezzo::amp

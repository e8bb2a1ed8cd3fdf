// The buffers of a step that may be skipped.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/amp/buffer_snapshot.h"

namespace mezzo::amp {

// Copies them as a step begins, also one that is captured, and puts them back.
class StepBuffers {
 public:
  // Nothing is copied yet.
  void begin() { taken_ = Taken::kNothing; }
  // Copies the buffers of these networks, which must outlive it, at this place of the step.
  void take(std::span<nn::Module* const> nets);
  // What stands behind take() in a step knows that the copies on devices were queued; a replay,
  // which takes them with its launch, does not say so.
  void complete();
  // Puts back what was copied.
  void restore() const;

 private:
  enum class Taken : std::uint8_t { kNothing, kOnHost, kEverywhere };

  BufferSnapshot snapshot_;
  Taken taken_ = Taken::kNothing;
};

}  // namespace mezzo::amp

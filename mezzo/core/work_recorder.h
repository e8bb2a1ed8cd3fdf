// Records device work that is queued repeatedly, so that it can be queued as a whole.
#pragma once

#include <functional>

#include "mezzo/core/ref.h"

namespace mezzo {

// Recorded work. It reads and writes memory at the addresses that it had when it was recorded.
class Recording : public RefCounted {
 public:
  // Queues all of it, after the work that the calling thread has queued before. Throws DeviceError.
  virtual void launch() = 0;
};

// Makes recordings for one user, who launches them one after the other, so that they share the
// memory that each needs only while it runs. The thread that made a recording must launch it.
class WorkRecorder {
 public:
  WorkRecorder() = default;
  WorkRecorder(const WorkRecorder&) = delete;
  WorkRecorder& operator=(const WorkRecorder&) = delete;
  virtual ~WorkRecorder() = default;

  // Records the work that `work` queues on the device, without executing it. A recorder may also
  // keep `work` and call it in launch(). Throws an Error if the work cannot be recorded, for
  // example because it waits for the device; then nothing is executed either.
  virtual Ref<Recording> record(const std::function<void()>& work) = 0;
};

}  // namespace mezzo

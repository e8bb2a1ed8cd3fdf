// Work that is queued on a device again and again: recorded once, it is queued as a whole.
#pragma once

#include <functional>

#include "mezzo/core/ref.h"

namespace mezzo {

// Work that was recorded. It reads and writes memory at the places of the recording.
class Recording : public RefCounted {
 public:
  // Queues all of it, after what the calling thread has queued before. Throws DeviceError.
  virtual void launch() = 0;
};

// Records for one user, who launches one recording after the other: they share the memory that each
// needs only while it runs. Recordings are launched by the thread that made them.
class WorkRecorder {
 public:
  WorkRecorder() = default;
  WorkRecorder(const WorkRecorder&) = delete;
  WorkRecorder& operator=(const WorkRecorder&) = delete;
  virtual ~WorkRecorder() = default;

  // What `work` queues on the device, and none of it is done now. A recorder may also keep `work`,
  // and call it in launch(). Throws an Error if the work cannot be recorded, because it waits for
  // the device for example; then nothing is done either.
  virtual Ref<Recording> record(const std::function<void()>& work) = 0;
};

}  // namespace mezzo

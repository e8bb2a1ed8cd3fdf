// Whether operations are recorded for backward(), per thread.
#pragma once

namespace mezzo {

bool grad_enabled();

// Switches recording on or off until the guard goes out of scope.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

// Nothing is recorded while this exists: `NoGrad guard;`.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace mezzo

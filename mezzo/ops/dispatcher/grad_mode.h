// Switches that control, per thread, whether operations are recorded for backward().
#pragma once

#include "mezzo/core/scoped.h"

namespace mezzo {

bool grad_enabled();

// Switches recording on or off until the guard goes out of scope.
class GradMode {
 public:
  explicit GradMode(bool enabled);

 private:
  Scoped<bool> scope_;
};

// Nothing is recorded while this exists: `NoGrad guard;`.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace mezzo

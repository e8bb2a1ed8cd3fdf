// Mixed precision for the modules that a function calls, and for nothing else in it.
#pragma once

#include <optional>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/policy.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

// While it exists, modules that this thread calls compute under the policy, or in the region that
// was open before if there is none, and give f32 results. Outside of modules nothing is cast:
// there the loss is computed, whose sums and logarithms 16 bits would spoil at any level.
class ModuleRegion {
 public:
  explicit ModuleRegion(const std::optional<Policy>& policy);

 private:
  nn::AroundModules around_;
  NoAutocast outside_;
};

}  // namespace mezzo::amp

// Autocast: a region in which every operation picks its precision by its rule.
#pragma once

#include <utility>

#include "mezzo/amp/policy.h"
#include "mezzo/ops/dispatcher/call.h"

namespace mezzo::amp {

// While an Autocast exists, operations called on this thread compute in the precision that their
// rule and the policy choose; inputs are cast on the way in, differentiably. Regions nest: the
// innermost one counts, also when it is disabled. Leaving by an exception restores what was before.
// A region without a name would end where it begins.
//
//   {
//     amp::Autocast region(DType::kBf16);
//     loss = cross_entropy(net(images), labels);  // convolutions in bf16, the loss in f32
//   }
//   loss.backward();  // every op in the dtype of its forward, inside a region or not
//
// f64 and integer tensors are never cast. Throws ArgumentError unless the lower dtype is bf16 or
// f16 (or f32 at O3); of a region that is disabled, or at O0, it says nothing and may be any.
class Autocast {
 public:
  // Level auto in that dtype.
  [[nodiscard]] explicit Autocast(DType lower, bool enabled = true);
  [[nodiscard]] explicit Autocast(const Policy& policy, bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  Policy previous_policy_;
  bool previous_enabled_;
  PrecisionHook* previous_hook_;
};

// While it exists, nothing on this thread is cast: for what stands beside a network within a user's
// region and is no part of it. A loss times its scale would overflow in f16, and sums of gradients
// would lose what f32 keeps.
class NoAutocast {
 public:
  NoAutocast() = default;

 private:
  Autocast region_{DType::kBf16, /*enabled=*/false};  // of a disabled region the dtype says nothing
};

// The plain switch: from here on this thread computes under the policy, until it is switched off or
// a surrounding region ends.
void enable_autocast(const Policy& policy);
void disable_autocast();

bool is_autocast_enabled();
// The policy of the innermost region; of no meaning if none is enabled.
const Policy& autocast_policy();

// Calls function(arguments...) in a region of that policy: the decorator form of Autocast.
template <class Function, class... Arguments>
decltype(auto) with_autocast(const Policy& policy, Function&& function, Arguments&&... arguments) {
  const Autocast region(policy);
  return std::forward<Function>(function)(std::forward<Arguments>(arguments)...);
}

// The same as a wrapper: a function that computes under the policy whenever it is called.
template <class Function>
auto autocast(const Policy& policy, Function function) {
  return [policy, function = std::move(function)](auto&&... arguments) -> decltype(auto) {
    return with_autocast(policy, function, std::forward<decltype(arguments)>(arguments)...);
  };
}

// Plumbing for whoever decides the precision of a call instead of a region: casts those of its
// floating-point inputs that may be cast.
void cast_inputs(const OpDef& op, Operands& operands, DType dtype);
// Rounds scale and shift of a normalisation as if they were kept in the lower dtype, if the policy
// does not keep them in f32.
void round_parameters(const Policy& policy, const OpDef& op, Operands& operands);

}  // namespace mezzo::amp

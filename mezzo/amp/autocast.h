// Autocast: a region in which each operation computes in the precision that its rule chooses.
#pragma once

#include <utility>

#include "mezzo/amp/policy.h"
#include "mezzo/ops/dispatcher/call.h"

namespace mezzo::amp {

// While an Autocast exists, operations called on this thread compute in the precision that their
// rule and the policy choose; inputs are cast on the way in, differentiably. Regions nest: the
// innermost one counts, even if it is disabled. An exception that leaves a region restores the
// previous one. Give the region a name: an unnamed object would be destroyed at once.
//
//   {
//     amp::Autocast region(DType::kBf16);
//     loss = cross_entropy(net(images), labels);  // convolutions in bf16, the loss in f32
//   }
//   loss.backward();  // every op in the dtype of its forward, inside a region or not
//
// f64 and integer tensors are never cast. Throws ArgumentError unless the lower dtype is a
// lower precision (or f32 at O3). If the region is disabled, or at O0, the lower dtype is not
// checked.
class Autocast {
 public:
  // Opens a region at level auto with that lower dtype.
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

// While it exists, nothing on this thread is cast. For computations within a user's region that are
// not part of the network: a loss times its scale would overflow a narrow range, and sums of
// gradients would lose what f32 keeps.
class NoAutocast {
 public:
  NoAutocast() = default;

 private:
  Autocast region_{DType::kBf16, /*enabled=*/false};  // the dtype of a disabled region is not used
};

// Turns autocast on for this thread, until it is turned off or a surrounding region ends.
void enable_autocast(const Policy& policy);
void disable_autocast();

bool is_autocast_enabled();
// The policy of the innermost region; meaningless if none is enabled.
const Policy& autocast_policy();

// Calls function(arguments...) in a region of that policy: the decorator form of Autocast.
template <class Function, class... Arguments>
decltype(auto) with_autocast(const Policy& policy, Function&& function, Arguments&&... arguments) {
  const Autocast region(policy);
  return std::forward<Function>(function)(std::forward<Arguments>(arguments)...);
}

// Like with_autocast(), as a wrapper: returns a function that computes under the policy in every
// call.
template <class Function>
auto autocast(const Policy& policy, Function function) {
  return [policy, function = std::move(function)](auto&&... arguments) -> decltype(auto) {
    return with_autocast(policy, function, std::forward<decltype(arguments)>(arguments)...);
  };
}

// For mezzo's own layers, where something else than a region decides the precision of a call: casts
// those floating-point inputs that may be cast.
void cast_inputs(const OpDef& op, Operands& operands, DType dtype);
// Rounds scale and shift of a normalisation as if they were kept in the lower dtype, unless the
// policy keeps them in f32.
void round_parameters(const Policy& policy, const OpDef& op, Operands& operands);

}  // namespace mezzo::amp

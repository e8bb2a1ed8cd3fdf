// The switch for direct sums: whether convolutions may be computed by methods that round more.
#pragma once

#include <optional>

#include "mezzo/core/scoped.h"

namespace mezzo {

// While it exists, convolutions that are called on this thread, and their gradients whenever these
// are computed, are direct sums of products: not by Winograd's method, whose rounding errors are
// about twice those of direct sums, and larger where large values lie beside small ones; and on
// GPUs not in TF32, unless the operands are exact in it. See docs/numerics.md. With `false` the
// fastest method may compute them, as it is by default. Scopes may be nested; the innermost counts.
//
//   const ExactSums exact;
//   const Tensor y = net(x);
//
// A program that is captured within such a scope keeps its direct sums wherever it runs. A compiled
// step that was captured outside is captured again when it is called within one.
class ExactSums {
 public:
  explicit ExactSums(bool exact = true);

 private:
  Scoped<std::optional<bool>> scope_;
};

// What holds for all threads where no ExactSums exists. Off by default; the environment variable
// MEZZO_EXACT=1 turns it on.
void use_exact_sums(bool exact);

// Whether a convolution that is called now, on this thread, is computed by direct sums.
bool are_sums_exact();

}  // namespace mezzo

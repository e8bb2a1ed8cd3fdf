// The choice of the next token from its logits.
#pragma once

#include <cstdint>
#include <span>

#include "mezzo/core/random.h"

namespace mezzo::models {

// How a token is chosen; by default from all of them, with the probabilities of the network.
struct SamplingOptions {
  // Logits are divided by it: below 1, likely tokens become likelier. 0 takes the likeliest token.
  double temperature = 1;
  // Only the k likeliest tokens; 0: all.
  std::int64_t top_k = 0;
  // Only the likeliest tokens whose probabilities reach p together (Holtzman et al.: "The curious
  // case of neural text degeneration", 2020), of those that top_k leaves; 1: all.
  double top_p = 1;
};

// Throws ArgumentError for a temperature that is negative or infinite, a negative top_k, and a
// top_p outside (0, 1].
void check_sampling(const SamplingOptions& options);

// The index of a token with these logits. Of equal logits, the token with the lower number counts
// as the likelier. Probabilities are computed in f64, so that the choice does not depend on the
// number of threads. One number is drawn from `random`, also where no choice is left. Throws
// ArgumentError if there are no logits, or one is NaN or +infinity.
std::int64_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          Generator& random);

}  // namespace mezzo::models

#include "mezzo/models/sample_token.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "mezzo/core/error.h"

namespace mezzo::models {
namespace {

void check_logits(std::span<const float> logits) {
  check_arg(!logits.empty(), "sample_token", "there are no logits");
  for (std::size_t i = 0; i < logits.size(); ++i) {
    check_arg(logits[i] < std::numeric_limits<float>::infinity(), "sample_token",
              "the logit of token ", i, " is ", logits[i],
              ". The network has diverged, or its dtype is too narrow");
  }
}

// The tokens, the likeliest first; as many as top_k allows.
std::vector<std::size_t> by_likelihood(std::span<const float> logits, std::int64_t top_k) {
  std::vector<std::size_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), std::size_t{0});
  const auto is_likelier = [&](std::size_t a, std::size_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  const std::size_t kept =
      top_k == 0 ? tokens.size() : std::min(tokens.size(), static_cast<std::size_t>(top_k));
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(kept);
  std::partial_sort(tokens.begin(), end, tokens.end(), is_likelier);
  tokens.resize(kept);
  return tokens;
}

// exp((logit - largest) / temperature) of each token, at most 1.
std::vector<double> weights_of(std::span<const float> logits,
                               const std::vector<std::size_t>& tokens, double temperature) {
  std::vector<double> weights;
  for (const std::size_t token : tokens) {
    const double below = double{logits[token]} - double{logits[tokens.front()]};
    weights.push_back(std::exp(below / temperature));
  }
  return weights;
}

// Removes what comes after the first tokens that reach a share of p. One token stays.
void keep_nucleus(std::vector<double>& weights, double p) {
  const double enough = p * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (sum >= enough) {
      weights.resize(i + 1);
      return;
    }
  }
}

// The position of a weight, with a probability that is proportional to it; `number` in [0, 1).
std::size_t position_at(const std::vector<double>& weights, double number) {
  const double wanted = number * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (wanted < sum) return i;
  }
  return weights.size() - 1;  // rounding has made the sum smaller than the number
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  check_arg(options.temperature >= 0 && std::isfinite(options.temperature), "sample_token",
            "the temperature must be finite and not negative, not ", options.temperature,
            ". 1 takes the network's probabilities, 0 the likeliest token");
  check_arg(options.top_k >= 0, "sample_token", "top_k must not be negative, it is ", options.top_k,
            ". 0 leaves all tokens");
  check_arg(options.top_p > 0 && options.top_p <= 1, "sample_token",
            "top_p must be in (0, 1], not ", options.top_p, ". 1 leaves all tokens");
}

std::int64_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          Generator& random) {
  check_sampling(options);
  check_logits(logits);
  const double number = random.uniform();
  const std::vector<std::size_t> tokens =
      by_likelihood(logits, options.temperature == 0 ? 1 : options.top_k);
  if (tokens.size() == 1) return static_cast<std::int64_t>(tokens.front());
  std::vector<double> weights = weights_of(logits, tokens, options.temperature);
  if (options.top_p < 1) keep_nucleus(weights, options.top_p);
  return static_cast<std::int64_t>(tokens[position_at(weights, number)]);
}

}  // namespace mezzo::models

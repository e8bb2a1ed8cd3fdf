// Chooses a dtype for every operation: the least time, or the least memory, within limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace mezzo::tune {

// What is made as small as possible.
enum class Objective : std::uint8_t { kTime, kMemory };

// What something costs: an operation in a dtype, or a cast. Costs of a plan are their sums.
struct Cost {
  double ms = 0;
  double bytes = 0;          // of tensors that the backward pass keeps
  double error_squared = 0;  // of the gradients: contributions are taken as independent

  Cost& operator+=(const Cost& other) {
    ms += other.ms;
    bytes += other.bytes;
    error_squared += other.error_squared;
    return *this;
  }
};

// Operations, each of which takes one of the same labels. A label that is not `possible` for an
// operation is never chosen; label 0 is possible for all.
struct SolveProblem {
  struct Option {
    bool possible = false;
    Cost cost{};
  };
  // Between operations of different labels: the casts. cost[label of maker][label of reader].
  struct Link {
    std::size_t maker = 0;
    std::size_t reader = 0;
    std::vector<std::vector<Cost>> cost{};
  };

  std::size_t labels = 0;
  std::vector<std::vector<Option>> operations{};  // [operation][label]
  std::vector<Link> links{};
};

struct Limits {
  double error_squared = std::numeric_limits<double>::infinity();
  double bytes = std::numeric_limits<double>::infinity();
};

struct Solution {
  std::vector<std::size_t> labels{};
  Cost cost{};

  bool is_within(const Limits& limits) const {
    return cost.error_squared <= limits.error_squared && cost.bytes <= limits.bytes;
  }
};

Cost cost_of(const SolveProblem& problem, const std::vector<std::size_t>& labels);

// The best labels within the limits that are found; if none are within, those that come closest to
// the limit of the error.
//
// Limits become prices: time plus price times error, whose minimum over all labels is found by cuts
// of a graph. For two labels one minimum cut is exact; for more, alpha expansion (Boykov, Veksler
// and Zabih, 2001) lets one label after the other spread, each time by a minimum cut, until nothing
// improves. The price is found by bisection. What a price cannot reach, since it finds only plans
// on the convex hull, is tried operation by operation afterwards.
Solution solve(const SolveProblem& problem, Objective objective, const Limits& limits);

}  // namespace mezzo::tune

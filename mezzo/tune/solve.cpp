#include "mezzo/tune/solve.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "mezzo/tune/min_cut.h"

namespace mezzo::tune {
namespace {

// More than any plan costs at any price.
constexpr double kImpossible = 1e30;

struct Prices {
  double ms = 0;
  double bytes = 0;
  double error_squared = 0;

  double of(const Cost& cost) const {
    return ms * cost.ms + bytes * cost.bytes + error_squared * cost.error_squared;
  }
};

// Finds the cheapest labels at given prices.
class Cheapest {
 public:
  Cheapest(const SolveProblem& problem, const Prices& prices)
      : problem_(problem), prices_(prices) {}

  std::vector<std::size_t> find() {
    std::vector<std::size_t> labels(problem_.operations.size(), 0);
    double best = price(labels);
    for (bool improves = true; improves;) {
      improves = false;
      for (std::size_t label = 0; label < problem_.labels; ++label) {
        std::vector<std::size_t> expanded = expand(labels, label);
        const double now = price(expanded);
        if (now >= best * (1 - 1e-12)) continue;
        best = now;
        labels = std::move(expanded);
        improves = true;
      }
    }
    return labels;
  }

 private:
  double price(const std::vector<std::size_t>& labels) const {
    return prices_.of(cost_of(problem_, labels));
  }

  double price_of(std::size_t operation, std::size_t label) const {
    const SolveProblem::Option& option = problem_.operations[operation][label];
    return option.possible ? prices_.of(option.cost) : kImpossible;
  }

  // The cheapest labels in which every operation keeps its label or takes the new one. On the
  // sink's side it takes it.
  std::vector<std::size_t> expand(const std::vector<std::size_t>& labels, std::size_t alpha) const {
    MinCut cut(labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      cut.add_costs(i, price_of(i, labels[i]), price_of(i, alpha));
    }
    for (const SolveProblem::Link& link : problem_.links) add_link(cut, link, labels, alpha);
    cut.solve();
    std::vector<std::size_t> result = labels;
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (cut.is_on_sink_side(i) && problem_.operations[i][alpha].possible) result[i] = alpha;
    }
    return result;
  }

  // A cost of two nodes as an edge between them and costs of each (Kolmogorov and Zabih, 2004).
  void add_link(MinCut& cut, const SolveProblem::Link& link, const std::vector<std::size_t>& labels,
                std::size_t alpha) const {
    const std::size_t maker = labels[link.maker];
    const std::size_t reader = labels[link.reader];
    const double reader_takes = prices_.of(link.cost[maker][alpha]);
    const double maker_takes = prices_.of(link.cost[alpha][reader]);
    const double both = prices_.of(link.cost[alpha][alpha]);
    // A cast by way of a third dtype is no cheaper, as far as measured times say so.
    const double none =
        std::min(prices_.of(link.cost[maker][reader]), reader_takes + maker_takes - both);
    cut.add_costs(link.maker, none, maker_takes);
    cut.add_costs(link.reader, 0, both - maker_takes);
    cut.add_edge(link.maker, link.reader, reader_takes + maker_takes - none - both);
  }

  const SolveProblem& problem_;
  Prices prices_;
};

class Solver {
 public:
  Solver(const SolveProblem& problem, Objective objective, const Limits& limits)
      : problem_(problem), limits_(limits) {
    (objective == Objective::kTime ? goal_.ms : goal_.bytes) = 1;
    // Of two plans that are as good, the faster one.
    if (objective == Objective::kMemory) goal_.ms = 1e-6;
    best_ = at({.ms = 1e-9, .error_squared = 1});  // of the smallest error
  }

  Solution find() {
    const bool has_memory_limit = std::isfinite(limits_.bytes);
    double least = 0;
    double most = 0;
    find_error_price(0);
    if (has_memory_limit && !best_.is_within(limits_)) {
      most = 1e-12;
      while (most < 1e12 && !find_error_price(most)) most *= 10;
      for (int i = 0; i < kBisections / 2; ++i) {
        const double middle = least > 0 ? std::sqrt(least * most) : most / 10;
        (find_error_price(middle) ? most : least) = middle;
      }
    }
    improve();
    return best_;
  }

 private:
  static constexpr int kBisections = 40;

  Solution at(const Prices& prices) const {
    Solution solution{.labels = Cheapest(problem_, prices).find()};
    solution.cost = cost_of(problem_, solution.labels);
    return solution;
  }

  // Keeps the solution if it is the best within the limits; returns whether it is within.
  bool offer(Solution solution) {
    const bool is_within = solution.is_within(limits_);
    const bool is_better =
        !best_.is_within(limits_) || goal_.of(solution.cost) < goal_.of(best_.cost);
    if (is_within && is_better) best_ = std::move(solution);
    return is_within;
  }

  // Finds the least price of errors whose plan is within their limit. Returns whether some plan was
  // within all limits.
  bool find_error_price(double price_of_bytes) {
    Prices prices = goal_;
    prices.bytes += price_of_bytes;
    Solution free = at(prices);
    const bool is_cheap = free.cost.error_squared <= limits_.error_squared;
    bool any = offer(std::move(free));
    if (is_cheap) return any;
    double least = 1e-9;
    double most = 1e15;
    for (int i = 0; i < kBisections; ++i) {
      prices.error_squared = std::sqrt(least * most);
      Solution solution = at(prices);
      const bool is_within = solution.cost.error_squared <= limits_.error_squared;
      any = offer(std::move(solution)) || any;
      (is_within ? most : least) = prices.error_squared;
    }
    return any;
  }

  // Takes single operations in other labels as long as that is better and within the limits.
  void improve() {
    if (!best_.is_within(limits_)) return;
    for (bool improves = true; improves;) {
      improves = false;
      for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
        for (std::size_t label = 0; label < problem_.labels; ++label) {
          improves = try_label(i, label) || improves;
        }
      }
    }
  }

  bool try_label(std::size_t operation, std::size_t label) {
    if (label == best_.labels[operation]) return false;
    if (!problem_.operations[operation][label].possible) return false;
    Solution tried{.labels = best_.labels};
    tried.labels[operation] = label;
    tried.cost = cost_of(problem_, tried.labels);
    const bool is_better = goal_.of(tried.cost) < goal_.of(best_.cost) * (1 - 1e-12);
    return is_better && offer(std::move(tried));
  }

  const SolveProblem& problem_;
  Limits limits_;
  Prices goal_{};
  Solution best_;
};

}  // namespace

Cost cost_of(const SolveProblem& problem, const std::vector<std::size_t>& labels) {
  Cost cost;
  for (std::size_t i = 0; i < labels.size(); ++i) cost += problem.operations[i][labels[i]].cost;
  for (const SolveProblem::Link& link : problem.links) {
    cost += link.cost[labels[link.maker]][labels[link.reader]];
  }
  return cost;
}

Solution solve(const SolveProblem& problem, Objective objective, const Limits& limits) {
  return Solver(problem, objective, limits).find();
}

}  // namespace mezzo::tune

#include "mezzo/tune/min_cut.h"

#include <algorithm>
#include <limits>

namespace mezzo::tune {
namespace {

// Flows are sums of times: what rounding leaves of a capacity is no capacity.
constexpr double kLeast = 1e-12;

}  // namespace

MinCut::MinCut(std::size_t nodes)
    : source_(nodes), sink_(nodes + 1), from_(nodes + 2), next_(nodes + 2), level_(nodes + 2) {}

void MinCut::add_edge(std::size_t from, std::size_t to, double capacity) {
  if (capacity <= 0) return;
  from_[from].push_back(edges_.size());
  edges_.push_back({to, capacity});
  from_[to].push_back(edges_.size());
  edges_.push_back({from, 0});
}

void MinCut::add_costs(std::size_t node, double on_source_side, double on_sink_side) {
  const double least = std::min(on_source_side, on_sink_side);
  add_edge(node, sink_, on_source_side - least);
  add_edge(source_, node, on_sink_side - least);
}

void MinCut::solve() {
  while (find_levels()) {
    std::ranges::fill(next_, 0);
    while (push(source_, std::numeric_limits<double>::infinity()) > kLeast) {
    }
  }
}

bool MinCut::find_levels() {
  std::ranges::fill(level_, -1);
  level_[source_] = 0;
  std::vector<std::size_t> queue{source_};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const std::size_t node = queue[head];
    for (const std::size_t i : from_[node]) {
      const Edge& edge = edges_[i];
      if (edge.capacity <= kLeast || level_[edge.to] >= 0) continue;
      level_[edge.to] = level_[node] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[sink_] >= 0;
}

double MinCut::push(std::size_t node, double most) {
  if (node == sink_) return most;
  for (std::size_t& next = next_[node]; next < from_[node].size(); ++next) {
    const std::size_t i = from_[node][next];
    Edge& edge = edges_[i];
    if (edge.capacity <= kLeast || level_[edge.to] != level_[node] + 1) continue;
    const double pushed = push(edge.to, std::min(most, edge.capacity));
    if (pushed <= kLeast) continue;
    edge.capacity -= pushed;
    edges_[i ^ 1U].capacity += pushed;
    return pushed;
  }
  return 0;
}

}  // namespace mezzo::tune

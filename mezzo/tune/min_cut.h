// A minimum cut of a directed graph between a source and a sink.
#pragma once

#include <cstddef>
#include <vector>

namespace mezzo::tune {

// Dinic's algorithm (E. A. Dinic, 1970): the blocking flows of shortest paths, until no path is
// left. The nodes that the source then still reaches are its side of a minimum cut.
class MinCut {
 public:
  explicit MinCut(std::size_t nodes);

  // What it costs to have `from` on the source's side and `to` on the sink's. Not negative.
  void add_edge(std::size_t from, std::size_t to, double capacity);
  // What it costs to have a node on the source's side, and on the sink's. May be negative: only the
  // difference counts.
  void add_costs(std::size_t node, double on_source_side, double on_sink_side);

  void solve();
  // After solve().
  bool is_on_sink_side(std::size_t node) const { return level_[node] < 0; }

 private:
  struct Edge {
    std::size_t to;
    double capacity;  // what is left of it
  };

  bool find_levels();
  double push(std::size_t node, double most);

  std::size_t source_;
  std::size_t sink_;
  std::vector<Edge> edges_;                     // each followed by its reverse
  std::vector<std::vector<std::size_t>> from_;  // the edges of each node
  std::vector<std::size_t> next_;               // the first edge that may still carry flow
  std::vector<int> level_;                      // the distance from the source; -1: not reached
};

}  // namespace mezzo::tune

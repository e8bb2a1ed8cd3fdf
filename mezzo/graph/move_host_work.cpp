#include "mezzo/graph/move_host_work.h"

#include <cstddef>
#include <iterator>
#include <utility>

namespace mezzo::graph {

Program with_host_work_moved(Program program) {
  std::vector<Node> nodes;
  std::vector<Node> waiting;
  std::ptrdiff_t ahead = 0;  // where work that can go ahead is inserted
  const auto catch_up = [&] {
    nodes.insert(nodes.end(), std::make_move_iterator(waiting.begin()),
                 std::make_move_iterator(waiting.end()));
    waiting.clear();
  };
  for (Node& node : program.nodes) {
    if (!node.is_host() || node.is_queued()) {
      nodes.push_back(std::move(node));
    } else if (node.time == HostWorkTime::kCanWait) {
      waiting.push_back(std::move(node));
    } else if (node.time == HostWorkTime::kCanGoAhead && node.inputs.empty()) {
      nodes.insert(nodes.begin() + ahead++, std::move(node));
    } else {
      catch_up();
      nodes.push_back(std::move(node));
      ahead = std::ssize(nodes);
    }
  }
  catch_up();
  program.nodes = std::move(nodes);
  return program;
}

}  // namespace mezzo::graph

#include "mezzo/graph/put_off.h"

#include <iterator>
#include <utility>

namespace mezzo::graph {

Program with_host_work_put_off(Program program) {
  std::vector<Node> nodes;
  std::vector<Node> waiting;
  const auto catch_up = [&] {
    nodes.insert(nodes.end(), std::make_move_iterator(waiting.begin()),
                 std::make_move_iterator(waiting.end()));
    waiting.clear();
  };
  for (Node& node : program.nodes) {
    if (node.is_host() && node.time == HostWorkTime::kCanWait) {
      waiting.push_back(std::move(node));
      continue;
    }
    if (node.is_host()) catch_up();
    nodes.push_back(std::move(node));
  }
  catch_up();
  program.nodes = std::move(nodes);
  return program;
}

}  // namespace mezzo::graph

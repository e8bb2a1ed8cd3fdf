// Naming the calls of a step by the modules that make them.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "mezzo/ops/dispatcher/call_id.h"
#include "mezzo/ops/dispatcher/call_listener.h"

namespace mezzo::nn {

// Names the calls of one step, in the order in which they are made. The names are the same in every
// run of the step, as long as it makes the same calls.
class CallNames {
 public:
  // The name of a call that has just been made on this thread.
  CallId name(const FinishedCall& call);
  // The names of its outputs: those that a captured program gives, or name() for a call that is
  // made now.
  std::vector<ResultId> names(const FinishedCall& call);
  // Forgets the calls so far: the next step begins.
  void begin_step();

 private:
  struct Named {
    std::string path;
    std::string name;
  };

  std::unordered_map<std::uint64_t, Named> nodes_;  // by Node::sequence()
  std::map<CallId, std::int64_t> counts_;           // by the name with the number 0
};

}  // namespace mezzo::nn

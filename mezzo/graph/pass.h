// Passes: changes of a program that preserve what it computes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

struct Pass {
  const char* name;
  const char* doc;               // one sentence
  std::size_t (*run)(Program&);  // returns the number of changes
};

// The effect of a pass.
struct PassRecord {
  std::string name{};
  std::size_t changes = 0;
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
  std::size_t casts_before = 0;
  std::size_t casts_after = 0;
  double ms = 0;
};
using PassLog = std::vector<PassRecord>;

struct PassOptions {
  // Passes to leave out, by name; also those in the environment variable MEZZO_DISABLE_PASSES,
  // separated by commas.
  std::vector<std::string> disabled{};
  // Whether the program is checked before the first pass and after each (see verify()). Debug
  // builds always do.
  bool verify = true;
};

// Runs passes one after the other.
class PassRunner {
 public:
  // Throws ArgumentError if no pass has one of the names to be left out.
  explicit PassRunner(std::vector<Pass> passes, const PassOptions& options = {});

  // Runs the passes on the program. Throws what a pass throws, and ArgumentError naming the pass
  // after which the program is invalid.
  PassLog run(Program& program) const;
  // Runs one of the passes; does nothing if it is left out or does not exist.
  PassLog run_only(std::string_view name, Program& program) const;
  // The passes that are not left out.
  const std::vector<Pass>& passes() const { return passes_; }

 private:
  void run_one(const Pass& pass, Program& program, PassLog& log) const;

  std::vector<Pass> passes_;
  bool verify_;
};

}  // namespace mezzo::graph

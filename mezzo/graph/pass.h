// Passes: changes of a program that leave what it computes as it is.
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
  std::size_t (*run)(Program&);  // returns how much it changed
};

// What a pass did.
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
  // Passes that are left out, by name; those that the environment variable MEZZO_DISABLE_PASSES
  // names, separated by commas, are too.
  std::vector<std::string> disabled{};
  // Whether the program is looked over before the first pass and after each (see verify()). Debug
  // builds do so in any case.
  bool verify = true;
};

// Runs passes one after the other.
class PassRunner {
 public:
  // Throws ArgumentError for a name among those to be left out that no pass has.
  explicit PassRunner(std::vector<Pass> passes, const PassOptions& options = {});

  // Changes the program. Throws what a pass throws, and ArgumentError naming the pass behind which
  // the program is none any more.
  PassLog run(Program& program) const;
  // The same for one of them; nothing for one that is left out or not there.
  PassLog run_only(std::string_view name, Program& program) const;
  // The passes that are not left out.
  const std::vector<Pass>& passes() const { return passes_; }

 private:
  void run_one(const Pass& pass, Program& program, PassLog& log) const;

  std::vector<Pass> passes_;
  bool verify_;
};

}  // namespace mezzo::graph

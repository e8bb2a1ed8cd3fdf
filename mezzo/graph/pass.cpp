#include "mezzo/graph/pass.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "mezzo/graph/rewrite.h"
#include "mezzo/graph/verify.h"

namespace mezzo::graph {
namespace {

#ifdef NDEBUG
constexpr bool kIsDebugBuild = false;
#else
constexpr bool kIsDebugBuild = true;
#endif

std::vector<std::string> names_in_environment() {
  const char* text = std::getenv("MEZZO_DISABLE_PASSES");  // NOLINT(concurrency-mt-unsafe)
  std::vector<std::string> names;
  std::istringstream list(text != nullptr ? text : "");
  for (std::string name; std::getline(list, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

std::string names_of(const std::vector<Pass>& passes) {
  std::string names;
  for (const Pass& pass : passes) names += concat(names.empty() ? "" : ", ", pass.name);
  return names;
}

void verify_at(const std::string& place, const Program& program) {
  try {
    verify(program);
  } catch (const ArgumentError& error) {
    fail("graph", "the program is invalid ", place, ": ", error.what());
  }
}

PassRecord record_of(const Pass& pass, Program& program) {
  PassRecord record{.name = pass.name,
                    .nodes_before = program.nodes.size(),
                    .casts_before = count_casts(program)};
  const auto start = std::chrono::steady_clock::now();
  record.changes = pass.run(program);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  record.ms = time.count();
  record.nodes_after = program.nodes.size();
  record.casts_after = count_casts(program);
  return record;
}

}  // namespace

PassRunner::PassRunner(std::vector<Pass> passes, const PassOptions& options)
    : verify_(options.verify || kIsDebugBuild) {
  std::vector<std::string> disabled = options.disabled;
  for (std::string& name : names_in_environment()) disabled.push_back(std::move(name));
  for (const std::string& name : disabled) {
    const bool is_known =
        std::ranges::any_of(passes, [&](auto& pass) { return pass.name == name; });
    check_arg(is_known, "graph", "there is no pass `", name, "` to leave out. Known passes are ",
              names_of(passes));
  }
  for (const Pass& pass : passes) {
    if (std::ranges::find(disabled, pass.name) == disabled.end()) passes_.push_back(pass);
  }
}

void PassRunner::run_one(const Pass& pass, Program& program, PassLog& log) const {
  log.push_back(record_of(pass, program));
  if (verify_) verify_at(concat("after the pass ", pass.name), program);
}

PassLog PassRunner::run(Program& program) const {
  PassLog log;
  if (verify_) verify_at("before the first pass", program);
  for (const Pass& pass : passes_) run_one(pass, program, log);
  return log;
}

PassLog PassRunner::run_only(std::string_view name, Program& program) const {
  PassLog log;
  for (const Pass& pass : passes_) {
    if (pass.name == name) run_one(pass, program, log);
  }
  return log;
}

}  // namespace mezzo::graph

#include "mezzo/cli/diff_sides.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/numbers/dump.h"

namespace mezzo::cli {
namespace {

constexpr std::string_view kGraph = "+graph";
constexpr std::string_view kPlan = "plan:";

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

// `O2/bf16` has a slash, too.
bool names_level(const std::string& said) {
  if (said.starts_with(kPlan)) return true;
  const std::string name = said.substr(0, said.find_first_of("/+@"));
  return name == "f64" || amp::parse_level(name).has_value();
}

// What is given for levels is not for a plan.
DiffSide by_plan(DiffSide side, const std::string& file, SharedOptions own) {
  own.plan = file;
  check_arg(!file.empty(), "--plan", "`", side.said, "` names no file. Write plan:FILE");
  own.run.precision = {};
  own.keep_batchnorm.clear();
  own.recipe.clear();
  side.step.run = own.parsed();
  side.step.title = concat(side.step.run.model, " ", side.said);
  return side;
}

}  // namespace

DiffSide parse_side(const std::string& said, const char* argument, const SharedOptions& shared) {
  DiffSide side{.said = said};
  if (numbers::is_dump(said) || (is_folder(said) && !names_level(said))) {
    side.dump = said;
    return side;
  }
  check_arg(
      names_level(said), argument, "`", said,
      "` is neither a folder that --dump has written nor a level. Levels are f64, O0, O1, auto, "
      "O2 and O3, also with a dtype: O2/f16; plan:FILE is a plan of mezzo tune");
  const std::size_t at = said.find('@');
  std::string level = said.substr(0, at);
  SharedOptions own = shared;
  if (at != std::string::npos) {
    own.run.fine_tuning.weights = said.substr(at + 1);
    check_arg(!own.run.fine_tuning.weights.empty(), argument, "`", said,
              "` names no file after its @. Write it like O0@weights.safetensors");
  }
  own.run.graph = level.ends_with(kGraph);
  if (own.run.graph) level.resize(level.size() - kGraph.size());
  if (level.starts_with(kPlan)) return by_plan(std::move(side), level.substr(kPlan.size()), own);
  side.step.is_f64 = level == "f64";
  check_arg(!side.step.is_f64 || !own.run.graph, argument,
            "f64 is computed by plain loops, and has no graph mode. Write f64 alone");
  own.level = side.step.is_f64 ? "O0" : level;
  if (level.find('/') != std::string::npos) own.dtype.reset();  // --dtype is for the other levels
  // These options are for levels that lower something.
  const amp::Policy policy = parse_policy(own.level, own.dtype, argument);
  if (policy.level == amp::Level::kO0) {
    own.run.precision.lower.clear();
    own.keep_batchnorm.clear();
  }
  if (policy.eight_bits == nullptr) own.recipe.clear();
  if (side.step.is_f64) own.loss_scale.clear();
  side.step.run = own.parsed();
  side.step.title = concat(side.step.run.model, " ", said);
  return side;
}

}  // namespace mezzo::cli

// Options for a model and its precision.
#include <charconv>
#include <limits>
#include <vector>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/option_words.h"
#include "mezzo/models/model.h"
#include "mezzo/tune/plan_file.h"

namespace mezzo::cli {
namespace {

train::LossScaling parse_loss_scale(const std::string& text) {
  using Kind = train::LossScaling::Kind;
  if (text.empty()) return {};
  if (text == "dynamic") return {.kind = Kind::kDynamic};
  if (text == "none") return {.kind = Kind::kNone};
  double scale = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  check_arg(error == std::errc() && end == text.data() + text.size() && scale >= 1 &&
                scale <= double{std::numeric_limits<float>::max()},
            "--loss-scale", "`", text,
            "` is neither dynamic, none nor a number of at least 1 that is finite in f32");
  return {.kind = Kind::kStatic, .scale = scale};
}

// What --dtype takes.
std::string precision_names() {
  std::string names;
  for (const DType dtype : kLowerDTypes) names += concat(names.empty() ? "" : ", ", dtype);
  return concat(names, " or ", DType::kE4m3);
}

// Empty for an option that was not given.
std::optional<bool> parse_flag(const char* option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  check_arg(text == "true" || text == "false", option, "`", text,
            "` is neither true nor false. Use one of them");
  return text == "true";
}

void add_level_option(CLI::App& command, SharedOptions& options) {
  offer(command.add_option("--amp", options.level,
                           "O0, O1, auto, O2 or O3, also with its dtype: O2/f16"),
        level_words())
      ->capture_default_str()
      ->group(heading::kPrecision);
}

void add_rule_options(CLI::App& command, SharedOptions& options) {
  const auto add = [&](CLI::Option* option) { return option->group(heading::kPrecision); };
  const std::vector<std::string> operations = operation_words();
  add(offer(command.add_option("--keep-f32", options.run.precision.keep_float32,
                               "In f32: softmax,layer4.*"),
            operations))
      ->delimiter(',');
  add(offer(command.add_option("--lower", options.run.precision.lower, "In 16 bits, likewise"),
            operations))
      ->delimiter(',');
  add(offer(command.add_option("--keep-batchnorm-fp32", options.keep_batchnorm,
                               "Scale and shift of norms in f32: true, or false (default at O3)"),
            {"true", "false"}));
  add(offer(command.add_option("--dtype", options.dtype, precision_names() + " (bf16)"),
            words_in(precision_names())));
  std::string recipes;
  for (const Scaling scaling : kScalings) recipes += concat(recipes.empty() ? "" : "|", scaling);
  add(offer(command.add_option("--recipe", options.recipe, recipes), words_in(scaling_names())));
}

}  // namespace

std::string text_of(const amp::Policy& policy) {
  const std::string text = concat(policy.level, "/", policy.named_dtype());
  const bool says_recipe =
      policy.eight_bits != nullptr && policy.eight_bits->recipe.scaling != Scaling::kCurrent;
  return says_recipe ? concat(text, "/", policy.eight_bits->recipe.scaling) : text;
}

std::string precision_of(const train::RunOptions& run) {
  return run.plan != nullptr ? "plan " + run.plan_file : text_of(run.policy);
}

amp::Policy parse_policy(const std::string& text, const std::optional<std::string>& dtype,
                         const char* option, Scaling scaling) {
  const std::size_t slash = text.find('/');
  const bool has_own = slash != std::string::npos;
  const auto level = amp::parse_level(text.substr(0, slash));
  check_arg(level.has_value(), option, "unknown level `", text,
            "`. Known levels are O0, O1, auto, O2 and O3, also with a dtype: O2/f16");
  std::string name = has_own ? text.substr(slash + 1) : dtype.value_or("bf16");
  const std::size_t second_slash = name.find('/');
  const bool says_recipe = second_slash != std::string::npos;
  if (says_recipe) {
    scaling = scaling_named(name.substr(second_slash + 1), option);
    name.resize(second_slash);
  }
  check_arg(dtype.value_or(name) == name, "--dtype", "`", dtype.value_or(name),
            "` is not the dtype of the level `", text, "`. Leave one of the two out");
  const auto lower = parse_dtype(name);
  const char* const given = has_own ? option : "--dtype";
  const bool is_all_f32 = *level == amp::Level::kO0 && lower == DType::kF32;
  const bool is_eight = lower == DType::kE4m3;
  check_arg(lower.has_value() && (is_lower(*lower) || is_all_f32 || is_eight), given, "`", name,
            "` is not a lower precision. Use ", precision_names());
  check_arg(is_eight || !says_recipe, given, "`", text,
            "` has a recipe, and no eight bits to be scaled by it. Write O2/e4m3/mxfp8");
  check_arg(!is_eight || *level != amp::Level::kO0, given,
            "e4m3 at O0, which lowers nothing. Use O2/e4m3");
  return amp::policy_with(*level, is_all_f32 ? DType::kBf16 : *lower, scaling);
}

Scaling scaling_named(const std::string& name, const char* option) {
  const std::optional<Scaling> scaling = parse_scaling(name);
  check_arg(scaling.has_value(), option, "unknown recipe `", name, "`. Known recipes are ",
            scaling_names());
  return *scaling;
}

Scaling scaling_of(const SharedOptions& options) {
  return options.recipe.empty() ? Scaling::kCurrent : scaling_named(options.recipe, "--recipe");
}

void set_precision(const SharedOptions& options, train::RunOptions& run) {
  run.policy = parse_policy(options.level, options.dtype, "--amp", scaling_of(options));
  check_arg(options.recipe.empty() || run.policy.eight_bits != nullptr, "--recipe",
            "says how eight bits are scaled, and this run has none. Add --dtype e4m3");
  run.precision.keep_batchnorm_fp32 = parse_flag("--keep-batchnorm-fp32", options.keep_batchnorm);
  run.loss_scale = parse_loss_scale(options.loss_scale);
  if (!options.plan.empty()) run.use_plan(amp::read_plan(options.plan), options.plan);
  set_if_read(options.watch_every, run.plan != nullptr, "--watch-every", "--plan", run.watch_every);
}

void add_model_option(CLI::App& command, train::RunOptions& run, OfferedModels offered) {
  std::vector<std::string> names = models::names();
  if (offered == OfferedModels::kWithData) {
    std::erase_if(names, [](const auto& name) {
      return models::usual_config(name).is_for_tokens() && !models::predicts_tokens(name);
    });
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  offer(command.add_option("--model", run.model, list), names)
      ->capture_default_str()
      ->group(heading::kModel);
}

void add_precision_options_but_level(CLI::App& command, SharedOptions& options,
                                     OfferedModels offered) {
  add_model_option(command, options.run, offered);
  add_rule_options(command, options);
}

void add_precision_options(CLI::App& command, SharedOptions& options, OfferedModels offered) {
  add_model_option(command, options.run, offered);
  add_level_option(command, options);
  add_rule_options(command, options);
  CLI::Option* plan = add_plan_option(command, options);
  for (const char* name :
       {"--amp", "--dtype", "--recipe", "--keep-f32", "--lower", "--keep-batchnorm-fp32"}) {
    plan->excludes(name);
  }
}

CLI::Option* add_plan_option(CLI::App& command, SharedOptions& options) {
  return offer_files(command.add_option("--plan", options.plan, "Every dtype, from a file"))
      ->group(heading::kPrecision);
}

void add_plan_watch_option(CLI::App& command, SharedOptions& options) {
  command.add_option("--watch-every", options.watch_every, "With --plan: steps (100)")
      ->group(heading::kWatch);
}

void add_loss_scale_option(CLI::App& command, SharedOptions& options) {
  offer(command.add_option("--loss-scale", options.loss_scale, "dynamic, none or a number"),
        {"dynamic", "none"})
      ->group(heading::kPrecision);
}

}  // namespace mezzo::cli

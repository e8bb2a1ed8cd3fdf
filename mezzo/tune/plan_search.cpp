#include "mezzo/tune/plan_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/core/dtype.h"
#include "mezzo/core/error.h"

namespace mezzo::tune {
namespace {

// Notes the dtype that each operation computes in.
class SeeDtypes final : public amp::StepObserver {
 public:
  explicit SeeDtypes(const StepCalls& calls) : calls_(calls), choices_(calls.operations.size()) {}

  bool begin_step(double /*scale*/) override { return true; }
  void on_call(const amp::ObservedStepCall& call) override {
    const CallId& id = call.results[0].call;
    if (id.is_backward() || nn::current_module() == nullptr) return;
    const auto operation = product_or_call(calls_, id.path, id.op);
    if (!operation.has_value()) return;
    if (is_scaled_part(id.op)) choices_[*operation].dtype = DType::kE4m3;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const Tensor& input = *call.inputs[i];
      const bool counts = input.defined() && call.op.precision.may_cast(i);
      if (counts && is_lower(input.dtype())) choices_[*operation].dtype = input.dtype();
    }
  }

  const std::vector<Choice>& choices() const { return choices_; }

 private:
  const StepCalls& calls_;
  std::vector<Choice> choices_;
};

}  // namespace

PlanSearch::PlanSearch(amp::TrainStep& step, Prober& prober, const Measurements& measurements,
                       CastTimes& casts, Options options)
    : step_(step),
      prober_(prober),
      m_(measurements),
      options_(std::move(options)),
      problem_(problem_of(measurements, casts)) {}

void PlanSearch::run() {
  find_budget();
  add_levels();
  add_plan(budget_, "plan");
  // What accuracy costs.
  add_plan(budget_ / 4, "plan, a quarter of the error");
}

void PlanSearch::find_budget() {
  if (options_.error_budget.has_value()) {
    budget_ = *options_.error_budget;
    budget_from_ = "given";
    return;
  }
  for (const DType dtype : m_.lower) {
    if (is_eight_bit(dtype)) continue;  // an error as large as it can be is no budget
    const GradientError error =
        prober_.measure(amp::policy_with(amp::Level::kAuto, dtype, m_.scaling));
    // Where auto loses the gradient of a parameter, its error is no example to follow.
    constexpr double kLost = 0.5;
    if (!error.is_finite() || error.most_lost > kLost) continue;
    budget_ = error.total;
    budget_from_ = concat("that of auto/", dtype);
    return;
  }
  constexpr double kRoundings = 16;
  const DType first = *std::ranges::find_if(m_.lower, is_lower);
  budget_ = kRoundings * epsilon_of(first) / 2;
  budget_from_ = concat("sixteen roundings in ", first, ", since auto loses gradients here");
}

void PlanSearch::add_levels() {
  add_level({.level = amp::Level::kO0}, "O0");
  for (const DType dtype : m_.lower) {
    for (const amp::Level level : {amp::Level::kAuto, amp::Level::kO2}) {
      add_level(amp::policy_with(level, dtype, m_.scaling), concat(level, "/", dtype));
    }
  }
}

void PlanSearch::add_level(const amp::Policy& policy, const std::string& name) {
  options_.tell(concat("measuring the error of ", name));
  try {
    const GradientError error = prober_.measure(policy);
    SeeDtypes dtypes(m_.calls);
    step_.probe(options_.example, 1, dtypes);
    ProvedSetting setting{.name = name, .error = error};
    setting.plan = plan_of(m_.calls.operations, dtypes.choices(), m_.scaling);
    predict(setting, dtypes.choices());
    settings_.push_back(std::move(setting));
  } catch (const ArgumentError&) {
    // The level refuses an operation of the network: nobody can train with it.
  }
}

void PlanSearch::add_plan(double budget, const std::string& name) {
  constexpr int kTries = 5;
  double squares = budget * budget * calibration();
  for (int i = 0; i < kTries; ++i) {
    options_.tell(concat("measuring the error of the ", name));
    const Solution solution =
        solve(problem_, options_.objective, {.error_squared = squares, .bytes = bytes_limit()});
    std::vector<Choice> choices;
    for (const std::size_t label : solution.labels) choices.push_back(m_.labels[label]);
    ProvedSetting setting = setting_of(name, united(std::move(choices)));
    const bool is_within = setting.error.total <= budget;
    // If none is within the budget, the last and most exact one shows how far that is.
    if (is_within || i + 1 == kTries) {
      settings_.push_back(std::move(setting));
      return;
    }
    // More than predicted: as much less is allowed, and a little more than that.
    constexpr double kMargin = 0.8;
    const double over = setting.error.total / budget;
    squares *= std::isfinite(over) ? kMargin / (over * over) : 0.25;
  }
}

ProvedSetting PlanSearch::setting_of(const std::string& name, const std::vector<Choice>& choices) {
  ProvedSetting setting{.name = name, .is_plan = true};
  setting.plan = plan_of(m_.calls.operations, choices, m_.scaling);
  setting.error = prober_.measure(setting.plan);
  predict(setting, choices);
  return setting;
}

void PlanSearch::predict(ProvedSetting& setting, const std::vector<Choice>& choices) const {
  const Cost cost = cost_of(problem_, labels_of(m_, choices));
  setting.predicted_ms = cost.ms;
  setting.predicted_error =
      std::sqrt(std::max(0.0, cost.error_squared) + m_.base.total * m_.base.total);
}

// By how much the squares of predicted errors are too large, as the levels show, whose errors were
// measured as a whole.
double PlanSearch::calibration() const {
  std::vector<double> ratios;
  for (const ProvedSetting& setting : settings_) {
    const bool counts = setting.error.is_finite() && setting.error.total > 2 * m_.base.total &&
                        std::isfinite(setting.predicted_error) && setting.predicted_error > 0;
    if (!counts) continue;
    const double ratio = setting.predicted_error / setting.error.total;
    ratios.push_back(ratio * ratio);
  }
  if (ratios.empty()) return 1;
  std::ranges::sort(ratios);
  return std::clamp(ratios[ratios.size() / 2], 0.25, 4.0);
}

double PlanSearch::bytes_limit() const {
  if (!options_.memory_budget.has_value()) return std::numeric_limits<double>::infinity();
  // A step in f32 takes what it keeps for its backward pass, and a rest that no dtype changes.
  const Cost f32 = cost_of(problem_, std::vector<std::size_t>(m_.operations.size(), 0));
  return f32.bytes - static_cast<double>(m_.f32_peak - *options_.memory_budget);
}

// A module's calls share one 16-bit dtype: the one that more of them have.
std::vector<Choice> PlanSearch::united(std::vector<Choice> choices) const {
  const std::vector<Choice> solved = choices;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    // A product in eight bits fits among operations in bf16.
    const DType own = amp::dtype_beside(solved[i].dtype);
    if (!is_lower(own)) continue;
    DType most = own;
    std::int64_t most_calls = 0;
    for (const DType dtype : m_.lower) {
      std::int64_t calls = 0;
      for (std::size_t k = 0; k < solved.size(); ++k) {
        const bool counts = m_.calls.operations[k].module == m_.calls.operations[i].module;
        if (counts && amp::dtype_beside(solved[k].dtype) == dtype) ++calls;
      }
      if (calls > most_calls) most = dtype;
      most_calls = std::max(most_calls, calls);
    }
    if (most == own) continue;
    const MeasuredChoice* choice = m_.operations[i].find({.dtype = most});
    const bool is_possible = choice != nullptr && choice->error.is_finite();
    choices[i] = is_possible ? Choice{.dtype = most} : Choice{};
  }
  return choices;
}

}  // namespace mezzo::tune

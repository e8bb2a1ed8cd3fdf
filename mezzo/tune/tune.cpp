#include "mezzo/tune/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "mezzo/amp/module_precision.h"
#include "mezzo/core/cpu.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/tune/plan_search.h"
#include "mezzo/tune/plan_watch.h"
#include "mezzo/tune/reasons.h"

namespace mezzo::tune {
namespace {

// The multiplications and additions that the measurement of errors may take, in all passes: some
// tens of seconds of two cores.
constexpr double kErrorWork = 3e12;

class Tuner {
 public:
  Tuner(amp::TrainStep& step, const std::vector<Batch>& batches, const TuneOptions& options)
      : step_(step), batches_(batches), options_(options), casts_(step.net().device()) {}

  TuneResult run() {
    const auto begin = std::chrono::steady_clock::now();
    check();
    tell("collecting the step's operations");
    double flops = 0;
    Measurements measurements =
        collect_operations(step_, batches_.front(), lower_, options_.scaling, flops);
    choose_examples(measurements, flops);
    Prober prober = make_prober();
    measure_errors(measurements, prober, tell_);
    measure_times(measurements, step_, batches_.front(), casts_, tell_);
    PlanSearch search(step_, prober, measurements, casts_, search_options());
    search.run();
    result_.settings = search.take_settings();
    result_.error_budget = search.error_budget();
    result_.budget_from = search.budget_from();
    result_.operations = std::move(measurements.operations);
    prove(step_, batches_, result_.settings,
          {.steps = options_.proof_steps,
           .rounds = options_.proof_rounds,
           .graph = options_.graph,
           .on_progress = options_.on_progress});
    choose();
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return std::move(result_);
  }

 private:
  void tell(const std::string& what) const {
    if (options_.on_progress) options_.on_progress(what);
  }

  void check() {
    check_arg(!batches_.empty(), "tune", "there is no batch to measure with. Give one or more");
    for (const DType dtype : options_.candidates) {
      const bool can_be = amp::takes_part(dtype) || dtype == DType::kE4m3;
      check_arg(can_be, "tune", "an operation cannot be planned in ", dtype, ". Candidates are ",
                trainable_dtypes(), "; products can be in e4m3");
      if (dtype != DType::kF32 && std::ranges::count(lower_, dtype) == 0) lower_.push_back(dtype);
    }
    check_arg(options_.scaling != Scaling::kDelayed, "tune",
              "delayed scales are those of earlier steps, which a measurement does not have. Tune "
              "with e4m3, and change the plan's recipe");
    const bool has_16 = std::ranges::any_of(lower_, is_lower);
    check_arg(has_16, "tune", "there is no 16-bit candidate to choose beside f32. Name one of ",
              lower_dtypes());
    check_arg(options_.error_budget.value_or(1) > 0, "tune",
              "the error budget must be above 0: ", options_.error_budget.value_or(1));
    check_arg(options_.memory_budget.value_or(1) > 0, "tune",
              "the memory budget must be above 0 bytes: ", options_.memory_budget.value_or(1));
  }

  void choose_examples(const Measurements& measurements, double flops) {
    const std::int64_t size = batches_.front().size();
    std::int64_t examples = options_.error_examples;
    result_.error_batches =
        std::min(batches_.size(), static_cast<std::size_t>(options_.error_batches));
    if (examples == 0) {
      const double passes = static_cast<double>(passes_for_errors(measurements)) *
                            static_cast<double>(result_.error_batches);
      const double fit = kErrorWork / (passes * flops / static_cast<double>(size));
      constexpr std::int64_t kFewest = 4;  // batch norm needs several
      examples = std::max(kFewest, static_cast<std::int64_t>(std::min(fit, 1e9)));
    }
    result_.error_examples = std::min(size, examples);
  }

  Prober make_prober() {
    std::vector<Batch> batches;
    for (std::size_t i = 0; i < result_.error_batches; ++i) {
      const std::int64_t examples = std::min(batches_[i].size(), result_.error_examples);
      batches.push_back(batches_[i].slice(0, examples));
    }
    tell(concat("computing exact gradients, in ", options_.exact_name));
    Prober prober(step_, std::move(batches), options_.exact);
    result_.exact = options_.exact_name;
    result_.noise = prober.noise();
    result_.parameters = prober.parameters();
    return prober;
  }

  PlanSearch::Options search_options() const {
    return {.objective = options_.objective,
            .error_budget = options_.error_budget,
            .memory_budget = options_.memory_budget,
            .example = batches_.front().slice(0, result_.error_examples),
            .tell = tell_};
  }

  // --- The choice -------------------------------------------------------------------------------

  bool is_within(const ProvedSetting& setting) const {
    const bool is_exact = setting.error.is_finite() && setting.error.total <= result_.error_budget;
    const bool fits = setting.peak_bytes <=
                      options_.memory_budget.value_or(std::numeric_limits<std::int64_t>::max());
    return is_exact && fits;
  }

  bool is_better(const ProvedSetting& a, const ProvedSetting& b) const {
    // Times that are so close may be in another order the next time; then the more exact one.
    constexpr double kTie = 1.01;
    if (options_.objective == Objective::kMemory && a.peak_bytes != b.peak_bytes) {
      return a.peak_bytes < b.peak_bytes;
    }
    if (a.ms * kTie < b.ms) return true;
    return a.ms < b.ms * kTie && a.error.total < b.error.total;
  }

  void choose() {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < result_.settings.size(); ++i) {
      ProvedSetting& setting = result_.settings[i];
      setting.is_within = is_within(setting);
      if (!setting.is_within) continue;
      if (!best.has_value() || is_better(setting, result_.settings[*best])) best = i;
    }
    check_arg(best.has_value(), "tune", nothing_fits());
    find_pareto_front(result_.settings);
    result_.chosen = *best;
    take(result_.settings[*best]);
  }

  std::string nothing_fits() const {
    const auto exact = std::ranges::min_element(
        result_.settings, {}, [](const ProvedSetting& s) { return s.error.total; });
    const auto small = std::ranges::min_element(result_.settings, {}, &ProvedSetting::peak_bytes);
    return concat("no plan is within the budgets. The smallest error that was found is ",
                  error_text(exact->error.total), " (", exact->name,
                  "), the smallest peak of memory ", small->peak_bytes, " bytes (", small->name,
                  "). Allow more");
  }

  void take(const ProvedSetting& setting) {
    amp::PrecisionPlan plan = setting.plan;
    plan.model = options_.model;
    plan.machine = cpu_name();
    plan.threads = num_threads();
    plan.batch = concat(batches_.front().size(), " of ", examples_text());
    plan.step_ms = setting.ms;
    plan.error = setting.error.total;
    plan.error_budget = result_.error_budget;
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      MeasuredOperation& operation = result_.operations[i];
      const MeasuredChoice* choice =
          operation.find({.dtype = plan.rows[i].dtype, .exact = plan.rows[i].exact});
      if (choice != nullptr) {
        operation.chosen = static_cast<std::size_t>(choice - operation.choices.data());
      }
      operation.reason = reason_of(operation, result_.error_budget, options_.objective);
      plan.rows[i].reason = operation.reason;
    }
    set_precision(step_.net(), plan);
    PlanWatch watch(plan, 1);
    step_.probe(batches_.front(), 1, watch);
    plan = watch.with_shares(std::move(plan));
    if (options_.graph) step_.set_execution(graph::captured(step_.net()));
    result_.plan = std::move(plan);
  }

  // `3x32x32`.
  std::string examples_text() const {
    std::string text;
    const Shape& shape = batches_.front().inputs.front().shape();
    for (std::size_t i = 1; i < shape.rank(); ++i) text += concat(i > 1 ? "x" : "", shape[i]);
    return text.empty() ? "1" : text;
  }

  amp::TrainStep& step_;
  const std::vector<Batch>& batches_;
  const TuneOptions& options_;
  const TellProgress tell_ = [this](const std::string& what) { tell(what); };
  CastTimes casts_;
  std::vector<DType> lower_;  // the candidates besides f32
  TuneResult result_;
};

TuneResult tune_step(amp::TrainStep& step, const std::vector<Batch>& batches,
                     const TuneOptions& options) {
  try {
    return Tuner(step, batches, options).run();
  } catch (...) {
    // What was being measured is nobody's choice.
    amp::clear_policy(step.net());
    throw;
  }
}

}  // namespace
}  // namespace mezzo::tune

namespace mezzo::amp {

tune::TuneResult tune(TrainStep& step, const std::vector<Batch>& batches,
                      const tune::TuneOptions& options) {
  return tune::tune_step(step, batches, options);
}

}  // namespace mezzo::amp

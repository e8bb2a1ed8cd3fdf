#include "mezzo/tune/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "mezzo/core/cpu.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/tune/call_times.h"
#include "mezzo/tune/cast_times.h"
#include "mezzo/tune/parameter_copies.h"
#include "mezzo/tune/reasons.h"

namespace mezzo::tune {
namespace {

// The multiplications and additions that the measurement of errors may take, in all passes: some
// tens of seconds of two cores.
constexpr double kErrorWork = 3e12;
constexpr std::int64_t kTimedPasses = 3;

class CountFlops final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double /*ms*/) override { flops_ += work.flops; }
  double flops() const { return flops_; }

 private:
  double flops_ = 0;
};

// Notes the dtype that each operation computes in.
class SeeDtypes final : public amp::StepObserver {
 public:
  explicit SeeDtypes(const StepCalls& calls) : calls_(calls), choices_(calls.operations.size()) {}

  bool begin_step(double /*scale*/) override { return true; }
  void on_call(const amp::ObservedStepCall& call) override {
    const CallId& id = call.results[0].call;
    if (id.is_backward() || nn::current_module() == nullptr) return;
    const auto operation = calls_.find(id.path, id.op);
    if (!operation.has_value()) return;
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

class Tuner {
 public:
  Tuner(amp::TrainStep& step, const std::vector<Batch>& batches, const TuneOptions& options)
      : step_(step), batches_(batches), options_(options), casts_(step.net().device()) {}

  TuneResult run() {
    const auto begin = std::chrono::steady_clock::now();
    check();
    collect();
    measure_errors();
    measure_times();
    find_budget();
    add_levels();
    add_plans();
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
      check_arg(amp::takes_part(dtype), "tune", "an operation cannot be planned in ", dtype,
                ". Candidates are ", trainable_dtypes());
      if (is_lower(dtype)) lower_.push_back(dtype);
    }
    check_arg(!lower_.empty(), "tune",
              "there is no 16-bit candidate to choose beside f32. Name one of ", lower_dtypes());
    check_arg(options_.error_budget.value_or(1) > 0, "tune",
              "the error budget must be above 0: ", options_.error_budget.value_or(1));
    check_arg(options_.memory_budget.value_or(1) > 0, "tune",
              "the memory budget must be above 0 bytes: ", options_.memory_budget.value_or(1));
  }

  // --- The calls, and how much of a batch errors are measured with ------------------------------

  void collect() {
    tell("collecting the step's operations");
    set_precision(step_.net(), amp::Policy{.level = amp::Level::kO0});
    CollectStepCalls collector(step_.net());
    CountFlops products;
    {
      const ListenToKernels listening(products);
      step_.probe(batches_.front(), 1, collector);
    }
    calls_ = collector.calls();
    check_arg(!calls_.operations.empty(), "tune",
              "the network calls no operation whose precision can be chosen");
    for (const StepOperation& operation : calls_.operations) {
      MeasuredOperation measured{.operation = operation};
      for (const Choice& choice : choices_of(operation, lower_)) {
        measured.choices.push_back({.choice = choice});
      }
      result_.operations.push_back(std::move(measured));
    }
    choose_examples(products.flops());
  }

  void choose_examples(double flops) {
    const std::int64_t size = batches_.front().size();
    std::int64_t examples = options_.error_examples;
    result_.error_batches =
        std::min(batches_.size(), static_cast<std::size_t>(options_.error_batches));
    if (examples == 0) {
      double passes = 8;  // of levels and plans
      for (const MeasuredOperation& operation : result_.operations) {
        passes += static_cast<double>(operation.choices.size());
      }
      passes *= static_cast<double>(result_.error_batches);
      const double fit = kErrorWork / (passes * flops / static_cast<double>(size));
      // Batch norm needs several.
      constexpr std::int64_t kFewest = 4;
      examples = std::max(kFewest, static_cast<std::int64_t>(std::min(fit, 1e9)));
    }
    result_.error_examples = std::min(size, examples);
  }

  // --- Errors -----------------------------------------------------------------------------------

  void measure_errors() {
    std::vector<Batch> batches;
    for (std::size_t i = 0; i < result_.error_batches; ++i) {
      const std::int64_t examples = std::min(batches_[i].size(), result_.error_examples);
      batches.push_back(batches_[i].slice(0, examples));
    }
    tell(concat("exact gradients: ", options_.exact_name));
    prober_.emplace(step_, std::move(batches), options_.exact);
    result_.exact = options_.exact_name;
    result_.noise = prober_->noise();
    result_.parameters = prober_->parameters();
    base_ = prober_->measure(plan_of(calls_.operations, most_exact()));
    check_arg(base_.is_finite(), "tune",
              "the loss or the gradients are not finite in f32 already. Find out where that "
              "begins: `mezzo train --check first-overflow`");
    std::size_t done = 0;
    std::size_t all = 0;
    for (const MeasuredOperation& operation : result_.operations) all += operation.choices.size();
    for (std::size_t i = 0; i < result_.operations.size(); ++i) {
      for (MeasuredChoice& choice : result_.operations[i].choices) {
        tell(concat("errors, ", ++done, " of ", all));
        measure_error(i, choice);
      }
      drop_equal_choice(result_.operations[i]);
    }
  }

  // Everything as exact as it can be.
  std::vector<Choice> most_exact() const {
    std::vector<Choice> choices;
    for (const StepOperation& operation : calls_.operations) {
      choices.push_back({.exact = operation.has_exact_form()});
    }
    return choices;
  }

  void measure_error(std::size_t operation, MeasuredChoice& choice) {
    std::vector<Choice> choices = most_exact();
    if (choices[operation] == choice.choice) return;  // that is the base
    choices[operation] = choice.choice;
    choice.error = prober_->measure(plan_of(calls_.operations, choices));
    // What the rest of the step adds is not this operation's.
    const double own = choice.error.total * choice.error.total - base_.total * base_.total;
    choice.error.total = std::sqrt(std::max(0.0, own));
  }

  // A convolution that Winograd's method does not compute has direct sums in any case.
  static void drop_equal_choice(MeasuredOperation& operation) {
    const auto exact = std::ranges::find_if(
        operation.choices, [](const MeasuredChoice& choice) { return choice.choice.exact; });
    const bool is_same = operation.choices.front().error.total == 0;
    if (exact != operation.choices.end() && is_same) operation.choices.erase(exact);
  }

  // --- Times ------------------------------------------------------------------------------------

  void measure_times() {
    labels_ = {Choice{}, Choice{.exact = true}};
    for (const DType dtype : lower_) labels_.push_back({.dtype = dtype});
    for (const Choice& label : labels_) {
      tell(concat("times in ", label.text()));
      std::vector<Choice> choices;
      for (const MeasuredOperation& operation : result_.operations) {
        choices.push_back(has_choice(operation, label) ? label : Choice{});
      }
      set_precision(step_.net(), plan_of(calls_.operations, choices));
      reset_peak_memory(step_.net().device());
      const std::vector<double> times =
          operation_times(step_, batches_.front(), calls_, kTimedPasses);
      if (label == Choice{}) f32_peak_ = memory_stats(step_.net().device()).peak_bytes;
      for (std::size_t i = 0; i < times.size(); ++i)
        note_time(result_.operations[i], label, times[i]);
    }
  }

  static bool has_choice(const MeasuredOperation& operation, const Choice& choice) {
    return std::ranges::any_of(operation.choices,
                               [&](const MeasuredChoice& c) { return c.choice == choice; });
  }

  void note_time(MeasuredOperation& operation, const Choice& label, double ms) {
    const StepOperation& calls = operation.operation;
    for (MeasuredChoice& choice : operation.choices) {
      if (choice.choice != label) continue;
      choice.ms = ms;
      choice.bytes = static_cast<double>(calls.results) * static_cast<double>(size_of(label.dtype));
      choice.cast_ms = own_casts_ms(calls, label.dtype);
    }
  }

  // Of what is f32 in any case.
  double own_casts_ms(const StepOperation& calls, DType dtype) {
    constexpr DType kF32 = DType::kF32;
    return casts_.ms(calls.f32_inputs, kF32, dtype) + casts_.ms(calls.parameters, kF32, dtype) +
           casts_.ms(calls.f32_reads, dtype, kF32) + casts_.ms(calls.f32_reads, kF32, dtype);
  }

  // --- The problem ------------------------------------------------------------------------------

  SolveProblem problem() {
    SolveProblem problem{.labels = labels_.size()};
    for (const MeasuredOperation& operation : result_.operations) {
      std::vector<SolveProblem::Option> options(labels_.size());
      for (const MeasuredChoice& choice : operation.choices) {
        const auto label =
            static_cast<std::size_t>(std::ranges::find(labels_, choice.choice) - labels_.begin());
        options[label] = {.possible = choice.error.is_finite(),
                          .cost = {.ms = choice.ms + choice.cast_ms,
                                   .bytes = choice.bytes,
                                   .error_squared = choice.error.total * choice.error.total}};
      }
      problem.operations.push_back(std::move(options));
    }
    for (const StepEdge& edge : calls_.edges) {
      problem.links.push_back({.maker = edge.maker, .reader = edge.reader, .cost = costs_of(edge)});
    }
    return problem;
  }

  std::vector<std::vector<Cost>> costs_of(const StepEdge& edge) {
    std::vector<std::vector<Cost>> costs(labels_.size(), std::vector<Cost>(labels_.size()));
    for (std::size_t maker = 0; maker < labels_.size(); ++maker) {
      for (std::size_t reader = 0; reader < labels_.size(); ++reader) {
        const DType from = labels_[maker].dtype;
        const DType to = labels_[reader].dtype;
        if (from == to) continue;
        costs[maker][reader] = {
            .ms = casts_.ms(edge.elements, from, to) + casts_.ms(edge.elements, to, from),
            .bytes = static_cast<double>(edge.elements) * static_cast<double>(size_of(to))};
      }
    }
    return costs;
  }

  // --- Settings ---------------------------------------------------------------------------------

  void find_budget() {
    if (options_.error_budget.has_value()) {
      result_.error_budget = *options_.error_budget;
      result_.budget_from = "given";
      return;
    }
    for (const DType dtype : lower_) {
      const GradientError error =
          prober_->measure(amp::Policy{.level = amp::Level::kAuto, .lower = dtype});
      if (!error.is_finite()) continue;
      result_.error_budget = error.total;
      result_.budget_from = concat("auto/", dtype);
      return;
    }
    // Where no level is of use, half of f16's rounding is.
    constexpr double kUsual = 0.01;
    result_.error_budget = kUsual;
    result_.budget_from = "1 %, since auto gives no finite gradients";
  }

  void add_levels() {
    add_level({.level = amp::Level::kO0}, "O0");
    for (const DType dtype : lower_) {
      for (const amp::Level level : {amp::Level::kAuto, amp::Level::kO2}) {
        add_level({.level = level, .lower = dtype}, concat(level, "/", dtype));
      }
    }
  }

  void add_level(const amp::Policy& policy, const std::string& name) {
    tell(concat("the error of ", name));
    ProvedSetting setting{.name = name};
    try {
      setting.error = prober_->measure(policy);
      set_precision(step_.net(), policy);
      SeeDtypes dtypes(calls_);
      step_.probe(batches_.front().slice(0, result_.error_examples), 1, dtypes);
      setting.plan = plan_of(calls_.operations, dtypes.choices());
      predict(setting, dtypes.choices());
    } catch (const ArgumentError&) {
      return;  // the level refuses an operation
    }
    result_.settings.push_back(std::move(setting));
  }

  void predict(ProvedSetting& setting, const std::vector<Choice>& choices) {
    double squares = base_.total * base_.total;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const MeasuredOperation& operation = result_.operations[i];
      const auto choice = std::ranges::find(operation.choices, choices[i], &MeasuredChoice::choice);
      if (choice == operation.choices.end()) continue;
      squares += choice->error.total * choice->error.total;
      setting.predicted_ms += choice->ms + choice->cast_ms;
    }
    for (const StepEdge& edge : calls_.edges) {
      const DType from = choices[edge.maker].dtype;
      const DType to = choices[edge.reader].dtype;
      setting.predicted_ms +=
          casts_.ms(edge.elements, from, to) + casts_.ms(edge.elements, to, from);
    }
    setting.predicted_error = std::sqrt(squares);
  }

  // The best plan within the budget, and one for a tenth of it, which shows what accuracy costs.
  void add_plans() {
    const SolveProblem all = problem();
    add_plan(all, result_.error_budget, "plan");
    add_plan(all, result_.error_budget / 4, "plan of a quarter of the error");
  }

  void add_plan(const SolveProblem& all, double budget, const std::string& name) {
    constexpr int kTries = 4;
    double squares = budget * budget * calibration();
    for (int i = 0; i < kTries; ++i) {
      const Limits limits{.error_squared = squares, .bytes = bytes_limit(all)};
      const Solution solution = solve(all, options_.objective, limits);
      std::vector<Choice> choices;
      for (const std::size_t label : solution.labels) choices.push_back(labels_[label]);
      unite_modules(choices);
      ProvedSetting setting{.name = name, .is_plan = true};
      setting.plan = plan_of(calls_.operations, choices);
      tell(concat("the error of the ", name));
      setting.error = prober_->measure(setting.plan);
      predict(setting, choices);
      if (setting.error.total <= budget) {
        result_.settings.push_back(std::move(setting));
        return;
      }
      const double over = setting.error.total / budget;
      squares *= std::isfinite(over) ? 0.8 / (over * over) : 0.25;
    }
  }

  // By how much the squares of predicted errors are too large: what one operation has rounded, the
  // next one need not round again. Known from the levels, whose errors were measured as a whole.
  double calibration() const {
    std::vector<double> ratios;
    for (const ProvedSetting& setting : result_.settings) {
      const bool counts = setting.error.is_finite() && setting.error.total > 2 * base_.total &&
                          std::isfinite(setting.predicted_error) && setting.predicted_error > 0;
      if (!counts) continue;
      const double ratio = setting.predicted_error / setting.error.total;
      ratios.push_back(ratio * ratio);
    }
    if (ratios.empty()) return 1;
    std::ranges::sort(ratios);
    return std::clamp(ratios[ratios.size() / 2], 0.25, 16.0);
  }

  double bytes_limit(const SolveProblem& all) const {
    if (!options_.memory_budget.has_value()) return std::numeric_limits<double>::infinity();
    // A step in f32 takes what it keeps for its backward pass and a rest that no dtype changes.
    const Cost f32 = cost_of(all, std::vector<std::size_t>(result_.operations.size(), 0));
    return f32.bytes - static_cast<double>(f32_peak_ - *options_.memory_budget);
  }

  // A module's calls share one 16-bit dtype: the one that more of them have.
  void unite_modules(std::vector<Choice>& choices) const {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const std::string& module = calls_.operations[i].module;
      std::vector<std::int64_t> counts(lower_.size());
      for (std::size_t k = 0; k < choices.size(); ++k) {
        if (calls_.operations[k].module != module || !is_lower(choices[k].dtype)) continue;
        ++counts[static_cast<std::size_t>(std::ranges::find(lower_, choices[k].dtype) -
                                          lower_.begin())];
      }
      const DType most =
          lower_[static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin())];
      if (is_lower(choices[i].dtype) && choices[i].dtype != most) {
        choices[i] =
            has_choice(result_.operations[i], {.dtype = most}) ? Choice{.dtype = most} : Choice{};
      }
    }
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
    const auto least_error = std::ranges::min_element(
        result_.settings, {}, [](const ProvedSetting& s) { return s.error.total; });
    const auto least_memory =
        std::ranges::min_element(result_.settings, {}, &ProvedSetting::peak_bytes);
    return concat("no plan is within the budgets. The smallest error that was found is ",
                  least_error->error.total, " (", least_error->name,
                  "), the smallest peak of memory ", least_memory->peak_bytes, " bytes (",
                  least_memory->name, "). Allow more");
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
      const Choice choice{.dtype = plan.rows[i].dtype, .exact = plan.rows[i].exact};
      const auto found = std::ranges::find(operation.choices, choice, &MeasuredChoice::choice);
      operation.chosen = found != operation.choices.end()
                             ? static_cast<std::size_t>(found - operation.choices.begin())
                             : 0;
      operation.reason = reason_of(operation, result_.error_budget);
      plan.rows[i].reason = operation.reason;
    }
    set_precision(step_.net(), plan);
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
  CastTimes casts_;
  std::vector<DType> lower_;    // candidates
  std::vector<Choice> labels_;  // all choices that some operation has
  StepCalls calls_;
  std::optional<Prober> prober_;
  GradientError base_;  // of everything as exact as it can be
  std::int64_t f32_peak_ = 0;
  TuneResult result_;
};

}  // namespace

TuneResult tune(amp::TrainStep& step, const std::vector<Batch>& batches,
                const TuneOptions& options) {
  return Tuner(step, batches, options).run();
}

}  // namespace mezzo::tune

namespace mezzo::amp {

TuneResult tune(TrainStep& step, const std::vector<Batch>& batches, const TuneOptions& options) {
  return mezzo::tune::tune(step, batches, options);
}

}  // namespace mezzo::amp

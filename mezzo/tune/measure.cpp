#include "mezzo/tune/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/error.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/tune/call_times.h"

namespace mezzo::tune {
namespace {

constexpr std::int64_t kTimedRounds = 3;

class CountFlops final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double /*ms*/) override { flops_ += work.flops; }
  double flops() const { return flops_; }

 private:
  double flops_ = 0;
};

double square(double value) { return value * value; }

// Measures errors one after the other, and counts them for whoever waits.
class ErrorMeasurement {
 public:
  ErrorMeasurement(Measurements& measurements, Prober& prober, const TellProgress& tell)
      : m_(measurements), prober_(prober), tell_(tell), all_(passes_for_errors(measurements)) {}

  void run() {
    m_.base = measure(most_exact());
    check_arg(m_.base.is_finite(), "tune",
              "the loss or the gradients are not finite in f32 already. Find out where that "
              "begins: `mezzo train --amp O0 --check first-overflow`");
    for (std::size_t i = 0; i < m_.operations.size(); ++i) {
      for (MeasuredChoice& choice : m_.operations[i].choices) measure_alone(i, choice);
      drop_equal_choice(m_.operations[i]);
    }
    for (MeasuredEdge& edge : m_.edges) measure_together(edge);
  }

 private:
  // Everything in f32, as exact as it can be: what is measured is one operation's alone.
  std::vector<Choice> most_exact() const {
    std::vector<Choice> choices;
    for (const StepOperation& operation : m_.calls.operations) {
      choices.push_back({.exact = operation.has_exact_form()});
    }
    return choices;
  }

  GradientError measure(const std::vector<Choice>& choices) {
    tell_(concat("measuring errors, ", ++done_, " of ", all_));
    return prober_.measure(plan_of(m_.calls.operations, choices, m_.scaling));
  }

  // What the rest of the step adds is not this operation's.
  double without_base(const GradientError& error) const {
    return std::max(0.0, square(error.total) - square(m_.base.total));
  }

  void measure_alone(std::size_t operation, MeasuredChoice& choice) {
    std::vector<Choice> choices = most_exact();
    if (choices[operation] == choice.choice) return;  // that is the base
    choices[operation] = choice.choice;
    choice.error = measure(choices);
    choice.error.total = std::sqrt(without_base(choice.error));
  }

  // A convolution that Winograd's method does not compute has direct sums in any case.
  static void drop_equal_choice(MeasuredOperation& operation) {
    const auto exact = std::ranges::find_if(
        operation.choices, [](const MeasuredChoice& choice) { return choice.choice.exact; });
    const bool is_same = operation.choices.front().error.total == 0;
    if (exact != operation.choices.end() && is_same) operation.choices.erase(exact);
  }

  void measure_together(MeasuredEdge& edge) {
    for (std::size_t i = 0; i < m_.lower.size(); ++i) {
      const Choice choice{.dtype = m_.lower[i]};
      // The result of a product in eight bits has 16: its reader rounds it once more.
      if (is_eight_bit(choice.dtype)) continue;
      const MeasuredChoice* maker = m_.operations[edge.edge.maker].find(choice);
      const MeasuredChoice* reader = m_.operations[edge.edge.reader].find(choice);
      if (maker == nullptr || reader == nullptr) continue;
      const double apart = maker->error_squared() + reader->error_squared();
      if (!std::isfinite(apart)) continue;
      std::vector<Choice> choices = most_exact();
      choices[edge.edge.maker] = choices[edge.edge.reader] = choice;
      const GradientError both = measure(choices);
      if (!both.is_finite()) continue;
      const double most = std::min(maker->error_squared(), reader->error_squared());
      edge.shared[i] = std::clamp(apart - without_base(both), 0.0, most);
    }
  }

  Measurements& m_;
  Prober& prober_;
  const TellProgress& tell_;
  std::int64_t all_;
  std::int64_t done_ = 0;
};

std::vector<std::vector<Cost>> costs_of(const Measurements& m, const MeasuredEdge& measured,
                                        CastTimes& casts) {
  const std::int64_t elements = measured.edge.elements;
  std::vector<std::vector<Cost>> costs(m.labels.size(), std::vector<Cost>(m.labels.size()));
  for (std::size_t maker = 0; maker < m.labels.size(); ++maker) {
    for (std::size_t reader = 0; reader < m.labels.size(); ++reader) {
      // A product in eight bits gives 16. What it reads is kept in eight.
      const DType from = amp::dtype_beside(m.labels[maker].dtype);
      const DType to = m.labels[reader].dtype;
      const DType read_as = amp::dtype_beside(to);
      const auto lower = std::ranges::find(m.lower, from);
      if (from == to && lower != m.lower.end()) {
        costs[maker][reader].error_squared =
            -measured.shared[static_cast<std::size_t>(lower - m.lower.begin())];
      }
      if (from == to) continue;
      costs[maker][reader] = {
          .ms = casts.ms(elements, from, read_as) + casts.ms(elements, read_as, from),
          .bytes = static_cast<double>(elements) * static_cast<double>(size_of(to))};
    }
  }
  return costs;
}

// Of what is f32 in any case.
double own_casts_ms(const StepOperation& calls, DType dtype, CastTimes& casts) {
  constexpr DType kF32 = DType::kF32;
  // A product in eight bits rounds what it is given: its own kernels are timed with it.
  if (is_eight_bit(dtype)) return 0;
  return casts.ms(calls.f32_inputs, kF32, dtype) + casts.ms(calls.parameters, kF32, dtype) +
         casts.ms(calls.f32_reads, dtype, kF32) + casts.ms(calls.f32_reads, kF32, dtype);
}

// Everything that has this choice in it, and the rest in f32.
amp::PrecisionPlan plan_with(const Measurements& m, const Choice& label) {
  std::vector<Choice> choices;
  for (const MeasuredOperation& operation : m.operations) {
    choices.push_back(operation.find(label) != nullptr ? label : Choice{});
  }
  return plan_of(m.calls.operations, choices, m.scaling);
}

// Keeps the shortest time of each.
void note_times(Measurements& m, const Choice& label, const std::vector<double>& times) {
  for (std::size_t i = 0; i < times.size(); ++i) {
    for (MeasuredChoice& choice : m.operations[i].choices) {
      if (choice.choice != label) continue;
      choice.ms = choice.ms == 0 ? times[i] : std::min(choice.ms, times[i]);
    }
  }
}

}  // namespace

double MeasuredChoice::error_squared() const {
  return error.is_finite() ? square(error.total) : std::numeric_limits<double>::infinity();
}

const MeasuredChoice* MeasuredOperation::find(const Choice& choice) const {
  const auto found = std::ranges::find(choices, choice, &MeasuredChoice::choice);
  return found != choices.end() ? &*found : nullptr;
}

Measurements collect_operations(amp::TrainStep& step, const Batch& batch,
                                const std::vector<DType>& lower, Scaling scaling, double& flops) {
  set_precision(step.net(), amp::Policy{.level = amp::Level::kO0});
  CollectStepCalls collector(step.net());
  CountFlops products;
  {
    const ListenToKernels listening(products);
    step.probe(batch, 1, collector);
  }
  flops = products.flops();
  Measurements m{.lower = lower, .scaling = scaling, .calls = collector.calls()};
  check_arg(!m.calls.operations.empty(), "tune",
            "the network calls no operation whose precision can be chosen");
  for (const StepOperation& operation : m.calls.operations) {
    MeasuredOperation measured{.operation = operation};
    for (const Choice& choice : choices_of(operation, lower)) {
      measured.choices.push_back({.choice = choice});
    }
    m.operations.push_back(std::move(measured));
  }
  for (const StepEdge& edge : m.calls.edges) {
    m.edges.push_back({.edge = edge, .shared = std::vector<double>(lower.size())});
  }
  m.labels = {Choice{}, Choice{.exact = true}};
  for (const DType dtype : lower) m.labels.push_back({.dtype = dtype});
  return m;
}

std::int64_t passes_for_errors(const Measurements& measurements) {
  auto passes = std::ssize(measurements.edges) * std::ssize(measurements.lower) + 1;
  for (const MeasuredOperation& operation : measurements.operations) {
    passes += std::ssize(operation.choices) - 1;  // one of them is the base
  }
  return passes;
}

void measure_errors(Measurements& measurements, Prober& prober, const TellProgress& tell) {
  ErrorMeasurement(measurements, prober, tell).run();
}

void measure_times(Measurements& m, amp::TrainStep& step, const Batch& batch, CastTimes& casts,
                   const TellProgress& tell) {
  // In turns, so that what slows the machine down for a while slows all dtypes down. The first
  // round allocates, and is not timed.
  for (std::int64_t round = 0; round <= kTimedRounds; ++round) {
    tell(concat("measuring times, round ", round + 1, " of ", kTimedRounds + 1));
    for (const Choice& label : m.labels) {
      set_precision(step.net(), plan_with(m, label));
      reset_peak_memory(step.net().device());
      const std::vector<double> times = operation_times(step, batch, m.calls);
      if (label == Choice{}) m.f32_peak = memory_stats(step.net().device()).peak_bytes;
      if (round > 0) note_times(m, label, times);
    }
  }
  for (MeasuredOperation& operation : m.operations) {
    for (MeasuredChoice& choice : operation.choices) {
      const StepOperation& calls = operation.operation;
      const DType dtype = choice.choice.dtype;
      choice.cast_ms = own_casts_ms(calls, dtype, casts);
      choice.bytes = static_cast<double>(calls.results) *
                     static_cast<double>(size_of(amp::dtype_beside(dtype)));
    }
  }
}

SolveProblem problem_of(const Measurements& m, CastTimes& casts) {
  SolveProblem problem{.labels = m.labels.size()};
  for (const MeasuredOperation& operation : m.operations) {
    std::vector<SolveProblem::Option> options(m.labels.size());
    for (std::size_t label = 0; label < m.labels.size(); ++label) {
      const MeasuredChoice* choice = operation.find(m.labels[label]);
      if (choice == nullptr) continue;
      options[label] = {.possible = choice->error.is_finite(),
                        .cost = {.ms = choice->ms + choice->cast_ms,
                                 .bytes = choice->bytes,
                                 .error_squared = choice->error_squared()}};
    }
    problem.operations.push_back(std::move(options));
  }
  for (const MeasuredEdge& edge : m.edges) {
    problem.links.push_back(
        {.maker = edge.edge.maker, .reader = edge.edge.reader, .cost = costs_of(m, edge, casts)});
  }
  return problem;
}

std::vector<std::size_t> labels_of(const Measurements& m, const std::vector<Choice>& choices) {
  std::vector<std::size_t> labels;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    // Direct sums are another choice only where there is a faster method.
    const bool has_it = m.operations[i].find(choices[i]) != nullptr;
    const Choice choice = has_it ? choices[i] : Choice{};
    labels.push_back(
        static_cast<std::size_t>(std::ranges::find(m.labels, choice) - m.labels.begin()));
  }
  return labels;
}

}  // namespace mezzo::tune

#include "mezzo/report/verdict.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "mezzo/core/error.h"
#include "mezzo/report/range_verdict.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

using amp::GradientHistogram;

// The scale with which none of the histograms overflows f16, with a margin for growth.
std::optional<double> best_scale(std::span<const GradientHistogram> histograms) {
  return amp::sum_of(histograms, "").best_scale(DType::kF16);
}

std::optional<double> best_scale(const RunData& run) {
  const auto of_parameters = best_scale(run.gradients);
  const auto of_activations = best_scale(run.activation_gradients);
  if (!of_parameters || !of_activations) return of_parameters ? of_parameters : of_activations;
  return std::min(*of_parameters, *of_activations);
}

std::string outcome(const RunData& run) {
  std::string text = concat(run.is_running ? "So far, the run did " : "The run did ",
                            count_of(static_cast<std::int64_t>(run.steps.size()), "step"));
  if (run.epochs.empty()) return text + ".";
  const EpochRecord& last = run.epochs.back();
  const std::string quality =
      run.has_accuracy ? concat("test accuracy of ", format_fixed(100 * last.accuracy, 2), " %")
                       : concat("test perplexity of ", format_fixed(std::exp(last.test_loss), 2));
  return concat(text, " in ", count_of(static_cast<std::int64_t>(run.epochs.size()), "epoch"),
                run.is_running ? " and has come to a " : " and ended with a ", quality,
                " and a test loss of ", format_number(last.test_loss), ".");
}

// A sentence about a loss that was not finite.
std::optional<std::string> divergence(const RunData& run) {
  const auto bad = std::ranges::find_if_not(
      run.steps, [](const StepRecord& step) { return std::isfinite(step.loss); });
  if (bad == run.steps.end()) return std::nullopt;
  return concat("The loss was first not finite in step ", bad->step, " (", format_number(bad->loss),
                "): from there on, the curves mean little.");
}

std::string skipped_steps(const RunData& run) {
  const auto skipped = std::ranges::count_if(run.steps, &StepRecord::skipped);
  if (skipped == 0) return "No step was skipped.";
  const auto first = std::ranges::find_if(run.steps, &StepRecord::skipped);
  const std::string culprit = first->nonfinite_loss    ? "the loss"
                              : first->culprit.empty() ? "a gradient"
                                                       : "the gradient of " + first->culprit;
  return concat(count_of(skipped, "step"), " of ", run.steps.size(),
                skipped == 1 ? " was" : " were", " skipped. In the first of them, step ",
                first->step, ", ", culprit, " was not finite at scale ", format_scale(first->scale),
                ".");
}

std::string zeros(const GradientHistogram& sum, const std::string& of_what) {
  const auto part =
      static_cast<double>(sum.counts.zeros()) / static_cast<double>(sum.counts.total());
  return concat("Exactly zero: ", format_part(part), " of the ", of_what,
                "; the following is about ", "the others.");
}

std::string f16_loss(const GradientHistogram& sum, const std::string& of_what, double scale) {
  const double overflowing = sum.overflowing_in(DType::kF16, scale);
  std::string text =
      concat("With the scale ", format_scale(scale), ", f16 would lose ",
             format_part(sum.lost_in(DType::kF16, scale)), " of the ", of_what, " to zero");
  if (overflowing > 0) text += concat(", and ", format_part(overflowing), " would overflow");
  return text + ".";
}

// How much loss scaling helps gradients in f16.
enum class Need : unsigned char { kNone, kLittle, kHelps, kNeeded };

Need need_of_scaling(std::span<const GradientHistogram> sums) {
  // Below this, the loss is smaller than the randomness that a step has from its choice of
  // examples.
  constexpr double kManyLost = 0.01;
  constexpr double kManyWithFewerBits = 0.1;
  Need need = Need::kNone;
  for (const GradientHistogram& sum : sums) {
    const double lost = sum.lost_in(DType::kF16);
    const double subnormal = sum.subnormal_in(DType::kF16);
    const Need own = lost >= kManyLost                 ? Need::kNeeded
                     : subnormal >= kManyWithFewerBits ? Need::kHelps
                     : lost > 0                        ? Need::kLittle
                                                       : Need::kNone;
    need = std::max(need, own);
  }
  return need;
}

std::string need_text(const RunData& run, Need need) {
  if (run.dtype != DType::kF16) {
    switch (need) {
      case Need::kNone: return "A run in f16 would need no loss scaling";
      case Need::kLittle: return "A run in f16 would hardly need loss scaling";
      case Need::kHelps: return "Loss scaling would help a run in f16";
      case Need::kNeeded: return "A run in f16 would need loss scaling";
    }
  }
  if (!run.is_scaled) {
    switch (need) {
      case Need::kNone: return "No loss scaling was needed";
      case Need::kLittle: return "Loss scaling would hardly have helped";
      case Need::kHelps: return "Loss scaling would have helped";
      case Need::kNeeded: return "Loss scaling would have been needed";
    }
  }
  switch (need) {
    case Need::kNone: return "Loss scaling was not needed";
    case Need::kLittle: return "Loss scaling was hardly needed";
    case Need::kHelps: return "Loss scaling helped";
    case Need::kNeeded: return "Loss scaling was needed";
  }
  return {};
}

// Whether the loss needed scaling, judged by what f16 does to the unscaled gradients.
std::string need_sentence(const RunData& run, std::span<const GradientHistogram> sums) {
  std::string lost;
  std::string subnormal;
  for (const GradientHistogram& sum : sums) {
    const char* separator = lost.empty() ? "" : " and ";
    lost += concat(separator, format_part(sum.lost_in(DType::kF16)), " of the ", sum.name);
    subnormal += concat(separator, format_part(sum.subnormal_in(DType::kF16)));
  }
  const bool was = run.dtype == DType::kF16 && run.is_scaled;
  std::string text = concat(need_text(run, need_of_scaling(sums)), ": without it, f16 would ",
                            was ? "have lost " : "lose ", lost, " to zero and ",
                            was ? "kept " : "keep ", subnormal, " in fewer bits");
  if (run.counted_steps > 0) text += ", as counted in " + counted_text(run);
  return text + ".";
}

// The parameters that f16 would affect most, worst first.
std::optional<std::string> most_affected(const RunData& run) {
  constexpr double kWorthNaming = 0.01;
  constexpr std::size_t kMost = 3;
  std::vector<std::pair<double, const GradientHistogram*>> affected;
  for (const auto* list : {&run.gradients, &run.activation_gradients}) {
    for (const GradientHistogram& histogram : *list) {
      const double lost = histogram.lost_in(DType::kF16);
      if (lost >= kWorthNaming) affected.emplace_back(lost, &histogram);
    }
  }
  if (affected.empty()) return std::nullopt;
  std::ranges::stable_sort(affected, std::greater<>(),
                           [](const auto& entry) { return entry.first; });
  std::string text = "Most affected by f16 without scaling:";
  for (std::size_t i = 0; i < std::min(kMost, affected.size()); ++i) {
    text += concat(i == 0 ? " " : ", ", affected[i].second->name, " (",
                   format_part(affected[i].first), ")");
  }
  return text + ".";
}

std::string bf16_sentence(const GradientHistogram& sum) {
  const double lost = sum.lost_in(DType::kBf16);
  if (lost == 0 && sum.overflowing_in(DType::kBf16) == 0) {
    return "bf16 has the range of f32: it loses none of them and needs no loss scaling.";
  }
  return concat("bf16 has the range of f32; it would still lose ", format_part(lost),
                " of them, which lie below 2⁻¹²⁶, and ",
                format_part(sum.overflowing_in(DType::kBf16)), " would overflow.");
}

void add_scaling_sentences(const RunData& run, std::span<const GradientHistogram> sums,
                           std::vector<std::string>& sentences) {
  sentences.push_back(need_sentence(run, sums));
  const double shown = std::exp2(shown_shift(run));
  if (shown != 1) {
    for (const GradientHistogram& sum : sums) {
      sentences.push_back(f16_loss(sum, sum.name, shown));
    }
  }
  if (const auto affected = most_affected(run)) sentences.push_back(*affected);
  if (const auto best = best_scale(run); best && run.is_scaled) {
    sentences.push_back(
        concat("The largest scale that would have left headroom for gradients four ",
               "times as large is ", format_scale(*best), "."));
  }
}

void add_gradient_sentences(const RunData& run, std::vector<std::string>& sentences) {
  const struct {
    std::span<const GradientHistogram> histograms;
    const char* name;
  } kinds[] = {{run.gradients, "parameter gradients"},
               {run.activation_gradients, "activation gradients"}};
  GradientHistogram all;
  std::vector<GradientHistogram> sums;  // only of those that are neither zero nor infinite
  for (const auto& [histograms, name] : kinds) {
    const GradientHistogram sum = amp::sum_of(histograms, name);
    const std::int64_t broken = sum.counts.infinities() + sum.counts.nans();
    if (broken > 0 && sum.counts.finite_nonzero() == 0) {
      sentences.push_back(concat("All ", name, " that are not zero were infinite or NaN: ", broken,
                                 " of ", sum.counts.total(), "."));
    }
    if (sum.counts.finite_nonzero() == 0) continue;
    if (sum.counts.zeros() > 0) sentences.push_back(zeros(sum, name));
    sums.push_back(sum);
    all.merge(sum);
  }
  if (sums.empty()) return;
  add_scaling_sentences(run, sums, sentences);
  sentences.push_back(bf16_sentence(all));
  if (run.dtype == DType::kF16) {
    sentences.push_back(
        "The gradients were counted in an f16 run: those that it lost were counted as zero. A run "
        "in f32 or bf16 shows all of them.");
  }
}

}  // namespace

std::string counted_text(const RunData& run) {
  const auto steps = static_cast<std::int64_t>(run.steps.size());
  if (run.counted_steps < steps) return concat(run.counted_steps, " of ", count_of(steps, "step"));
  return count_of(run.counted_steps, "step");
}

int shown_shift(const RunData& run) {
  double scale = 1;
  if (run.is_scaled && !run.steps.empty()) {
    scale = run.steps.back().scale;
  } else if (const auto best = best_scale(run)) {
    scale = *best;
  }
  return scale > 0 && std::isfinite(scale) ? std::ilogb(scale) : 0;
}

std::vector<std::string> verdict(const RunData& run) {
  std::vector<std::string> sentences;
  if (!run.steps.empty()) {
    sentences.push_back(outcome(run));
    for (const std::string& note : run.notes) sentences.push_back(note + ".");
    if (const auto bad = divergence(run)) sentences.push_back(*bad);
    sentences.push_back(skipped_steps(run));
  }
  add_gradient_sentences(run, sentences);
  add_range_sentences(run, sentences);
  return sentences;
}

}  // namespace mezzo::report

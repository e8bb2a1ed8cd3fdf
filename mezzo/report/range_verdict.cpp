#include "mezzo/report/range_verdict.h"

#include <algorithm>
#include <span>

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

using numbers::CallHistogram;
using numbers::RangeEffect;

constexpr std::size_t kMostNamed = 4;

// What is said of one call or of one weight.
struct Finding {
  std::string name{};     // `middle: mul`
  std::string reason{};   // a sentence without its full stop
  std::string to_keep{};  // for --keep-f32
  bool is_cast = false;
};

// `between 2⁻²⁵ and 2⁻²²`: where the numbers lie that are finite and not zero.
std::string place_of(const ExponentCounts& counts) {
  return concat("between ", power_of_two(counts.smallest().value_or(0)), " and ",
                power_of_two(counts.largest().value_or(0) + 1));
}

// What f16 would do to numbers that are held in a wider dtype.
std::string reason_before(const ExponentCounts& counts, const RangeEffect& effect) {
  if (effect.to_infinity > 0) {
    return concat("the numbers reach ", power_of_two(counts.largest().value_or(0)),
                  " and more, where f16 ends at 65504: ", format_part(effect.to_infinity),
                  " would be infinite");
  }
  return concat("the numbers lie ", place_of(counts),
                ", where f16 keeps few bits or none: ", format_part(effect.to_zero),
                " would become zero and ", format_part(effect.to_subnormal), " subnormal, and ",
                format_part(effect.lost_weight), " of what they add up to would be lost");
}

// What f16 has done to results that it holds.
std::string reason_after(const CallHistogram& call, const RangeEffect& effect) {
  const ExponentCounts& counts = call.exponents.counts;
  if (const std::int64_t infinities = counts.infinities(); infinities > 0) {
    return concat(infinities, " of ", counts.total(),
                  " numbers are infinite: beyond 65504, unless they are a mask's");
  }
  if (call.vanished > 0 && counts.finite_nonzero() == 0) {
    return concat(
        "all numbers are zero, though those that they are computed from are not: they "
        "lie below ",
        power_of_two(-25),
        ", where f16 has none, unless the operation "
        "makes them zero");
  }
  const double zeros = static_cast<double>(counts.zeros()) / static_cast<double>(counts.total());
  return concat("the numbers lie ", place_of(counts),
                ", where f16 keeps few bits: ", format_part(effect.to_subnormal),
                " of those that are not zero are subnormal, and ", format_part(zeros),
                " of all are zero, which some of them have become");
}

// Whether f16 has spoilt results that it holds.
bool has_lost(const CallHistogram& call, const RangeEffect& effect) {
  const bool has_vanished = call.vanished > 0 && call.exponents.counts.finite_nonzero() == 0;
  return call.exponents.counts.infinities() > 0 || has_vanished || !effect.fits();
}

// The module of a weight: `fc` of `fc.weight`.
std::string module_of(const std::string& weight) {
  const std::size_t dot = weight.rfind('.');
  return dot == std::string::npos ? std::string() : weight.substr(0, dot);
}

// `--keep-f32 middle,fc`
std::string option_text(std::span<const Finding> findings) {
  std::vector<std::string> names;
  for (const Finding& finding : findings) {
    const bool is_known = std::ranges::find(names, finding.to_keep) != names.end();
    if (!finding.to_keep.empty() && !is_known) names.push_back(finding.to_keep);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "--keep-f32 " : ",") + name;
  return text;
}

void add_findings(std::span<const Finding> findings, std::vector<std::string>& sentences) {
  for (const Finding& finding : findings.first(std::min(kMostNamed, findings.size()))) {
    sentences.push_back(concat(finding.name, ": ", finding.reason, "."));
  }
  if (findings.size() > kMostNamed) {
    sentences.push_back(concat("So it is with ", findings.size() - kMostNamed,
                               " more, which the tables below show."));
  }
}

// A cast repeats what the call before or after it says, and some kernels make casts of their own.
void drop_casts_beside_others(std::vector<Finding>& findings) {
  if (!std::ranges::all_of(findings, &Finding::is_cast)) {
    std::erase_if(findings, [](const Finding& finding) { return finding.is_cast; });
  }
}

// The calls that f16 cannot hold, by what holds their results in this run.
struct Judgement {
  std::vector<Finding> lost{};   // held in f16
  std::vector<Finding> wider{};  // held in f32 or bf16
  std::size_t good = 0;
};

Judgement judge(std::span<const CallHistogram> calls) {
  Judgement result;
  for (const CallHistogram& call : calls) {
    const ExponentCounts& counts = call.exponents.counts;
    const RangeEffect effect = numbers::effect_of(counts, NumberFormat::kF16);
    const bool is_f16 = call.dtype == DType::kF16;
    if (is_f16 ? !has_lost(call, effect) : effect.fits()) {
      ++result.good;
      continue;
    }
    Finding finding{.name = call.exponents.name,
                    .to_keep = numbers::name_to_keep(call.id),
                    .is_cast = call.id.op == "cast"};
    finding.reason = is_f16 ? reason_after(call, effect) : reason_before(counts, effect);
    (is_f16 ? result.lost : result.wider).push_back(std::move(finding));
  }
  drop_casts_beside_others(result.lost);
  drop_casts_beside_others(result.wider);
  return result;
}

void add_lost(const RunData& run, std::span<const Finding> lost,
              std::vector<std::string>& sentences) {
  if (lost.empty()) return;
  sentences.push_back(concat("f16 spoils the results of ", lost.size(), " of ",
                             count_of(std::ssize(run.activations), "call"), ", as counted in ",
                             counted_passes_text(run),
                             "; what comes first may have spoilt the others."));
  add_findings(lost, sentences);
  const std::string option = option_text(lost);
  sentences.push_back(option.empty() ? "Use bf16, which has the range of f32."
                                     : concat("Keep in f32: ", option,
                                              ". Or use bf16, which has the range of f32."));
}

void add_wider(const RunData& run, std::span<const Finding> wider,
               std::vector<std::string>& sentences) {
  if (wider.empty()) return;
  const std::string count =
      concat(wider.size(), " of ", count_of(std::ssize(run.activations), "call"));
  if (run.dtype == DType::kF16) {
    sentences.push_back(concat("This run rightly keeps the results of ", count,
                               " in f32, since f16 could not hold them."));
    add_findings(wider, sentences);
    return;
  }
  sentences.push_back(concat("f16 could not hold the results of ", count, ", as counted in ",
                             counted_passes_text(run), "."));
  add_findings(wider, sentences);
  const std::string option = option_text(wider);
  sentences.push_back(option.empty()
                          ? "Use bf16 rather than f16."
                          : concat("A run in f16 has to keep in f32: ", option,
                                   ". The rules of the levels may do so already: see the precision "
                                   "plan. Or use bf16, which has the range of f32."));
}

void add_good(const RunData& run, const Judgement& judged, std::vector<std::string>& sentences) {
  if (judged.good == 0) return;
  const bool all = judged.good == run.activations.size();
  sentences.push_back(
      concat("f16 can hold the results of ", all ? "all " : "the other ",
             count_of(static_cast<std::int64_t>(judged.good), "call"),
             ": none is infinite, and at most 1 % of what they add up to is lost at the lower end "
             "of its range. They may be lowered to f16."));
}

std::size_t count_that_fit(const RunData& run, NumberFormat format, bool is_scaled) {
  return static_cast<std::size_t>(
      std::ranges::count_if(run.activations, [&](const CallHistogram& call) {
        const ExponentCounts& counts = call.exponents.counts;
        return is_scaled ? numbers::effect_with_scale(counts, format).fits()
                         : numbers::effect_of(counts, format).fits();
      }));
}

std::string bf16_sentence(const RunData& run) {
  const std::size_t fit = count_that_fit(run, NumberFormat::kBf16, false);
  if (fit == run.activations.size()) {
    return concat("bf16 can hold the results of all ",
                  count_of(std::ssize(run.activations), "call"), ": they may be lowered to it.");
  }
  std::string names;
  for (const CallHistogram& call : run.activations) {
    if (numbers::effect_of(call.exponents.counts, NumberFormat::kBf16).fits()) continue;
    names += (names.empty() ? "" : ", ") + call.exponents.name;
  }
  return concat("bf16 can hold the results of ", fit, " of ",
                count_of(std::ssize(run.activations), "call"), ", not of ", names, ".");
}

std::string eight_bits_sentence(const RunData& run) {
  const auto of = [&](NumberFormat format) {
    return concat(name_of(format), " could hold the results of ",
                  count_that_fit(run, format, false), " as they are and of ",
                  count_that_fit(run, format, true), " with a scale of their own");
  };
  return concat("Outlook on eight bits, of ", count_of(std::ssize(run.activations), "call"), ": ",
                of(NumberFormat::kE4m3), "; ", of(NumberFormat::kE5m2),
                ". This is about their ranges, not about the few bits of their fractions.");
}

void add_weights(const RunData& run, std::vector<std::string>& sentences) {
  if (run.weights.empty()) return;
  std::vector<Finding> bad;
  for (const amp::ExponentHistogram& weight : run.weights) {
    const RangeEffect effect = numbers::effect_of(weight.counts, NumberFormat::kF16);
    if (effect.fits()) continue;
    bad.push_back({.name = weight.name,
                   .reason = reason_before(weight.counts, effect),
                   .to_keep = module_of(weight.name)});
  }
  if (bad.empty()) {
    sentences.push_back("f16 can hold all weights and buffers.");
    return;
  }
  sentences.push_back(
      concat("f16 cannot hold ", bad.size(), " of ", run.weights.size(), " weights and buffers."));
  add_findings(bad, sentences);
  if (const std::string option = option_text(bad); !option.empty()) {
    sentences.push_back(
        concat("What reads them belongs in f32, where norms are anyway: ", option, "."));
  }
}

}  // namespace

std::string counted_passes_text(const RunData& run) {
  const auto steps = std::ssize(run.steps);
  if (run.counted_forward_passes >= steps) return count_of(run.counted_forward_passes, "step");
  return concat(run.counted_forward_passes, " of ", count_of(steps, "step"));
}

void add_range_sentences(const RunData& run, std::vector<std::string>& sentences) {
  if (run.activations.empty()) return;
  const Judgement judged = judge(run.activations);
  add_lost(run, judged.lost, sentences);
  add_wider(run, judged.wider, sentences);
  add_good(run, judged, sentences);
  sentences.push_back(bf16_sentence(run));
  sentences.push_back(eight_bits_sentence(run));
  add_weights(run, sentences);
}

}  // namespace mezzo::report

#include "mezzo/numbers/first_overflow.h"

#include <algorithm>
#include <utility>

#include "mezzo/amp/batch.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/error.h"

namespace mezzo::numbers {
namespace {

// A weight that has grown so much, and beyond this size, says that updates were too large: initial
// weights are below 1, and those of trained networks rarely exceed a few tens.
constexpr double kGrowth = 100;
constexpr double kLargeWeight = 10;

// The calls that a call's largest or bad inputs come from, one before the other, and itself.
std::vector<TracedStepCall> chain_to(std::size_t origin, const std::vector<TracedStepCall>& calls) {
  constexpr std::size_t kMost = 6;
  std::vector<TracedStepCall> chain{calls[origin]};
  for (std::size_t at = origin; chain.size() < kMost;) {
    const Operand* largest = nullptr;
    for (const Operand& input : calls[at].inputs) {
      if (input.source != Source::kCall || input.call >= at) continue;
      const bool is_larger = largest == nullptr ||
                             input.range.largest_magnitude() > largest->range.largest_magnitude();
      if (is_larger) largest = &input;
    }
    if (largest == nullptr) break;
    at = largest->call;
    chain.insert(chain.begin(), calls[at]);
  }
  return chain;
}

}  // namespace

std::string OverflowFinding::text() const {
  if (calls == 0 || call.op.empty()) {
    return concat("first overflow: in step ", step,
                  " every call's result is finite here: a sum of gradients is not, over parts of a "
                  "batch or over processes, or their norm");
  }
  const std::string together = and_then.empty() ? "" : concat(", together with ", and_then);
  return concat("first overflow: ", call.text(), together, " (",
                call.is_backward() ? "backward" : "forward", ", call ", index + 1, " of ", calls,
                " of step ", step, "): ", cause.what, ". ", cause.advice);
}

FirstOverflow::FirstOverflow(nn::Module& net, Options options)
    : net_(net), options_(std::move(options)) {
  for (const Tensor& parameter : net_.parameters()) {
    largest_at_first_.push_back(range_of(parameter).largest_magnitude());
  }
}

bool FirstOverflow::begin_step(double /*scale*/) {
  ++step_;
  return false;
}

bool FirstOverflow::begin_replay(const amp::TrainStepResult& result, const Batch& batch) {
  if (looked_at_ == options_.most) return false;
  ++looked_at_;
  scale_ = result.scale;
  trace_.clear();
  trace_.sources().name_state(net_);
  trace_.sources().name_batch(batch);
  return true;
}

void FirstOverflow::on_call(const amp::ObservedStepCall& call) { trace_.add(call); }

void FirstOverflow::end_calls() {
  OverflowFinding finding{.step = step_, .scale = scale_, .calls = trace_.calls().size()};
  if (const auto origin = trace_.origin()) {
    const TracedStepCall& call = trace_.calls()[*origin];
    finding.call = call.id;
    finding.and_then = call.and_then;
    finding.index = *origin;
    finding.cause = cause_of(call, trace_.calls(), facts());
    finding.chain = chain_to(*origin, trace_.calls());
  }
  trace_.clear();
  const bool is_known = std::ranges::any_of(findings_, [&](const OverflowFinding& known) {
    return known.call == finding.call && known.cause.kind == finding.cause.kind;
  });
  if (is_known) return;
  findings_.push_back(std::move(finding));
  if (options_.on_found) options_.on_found(findings_.back());
}

StepFacts FirstOverflow::facts() const {
  StepFacts facts{.scale = scale_, .is_dynamic = options_.is_scale_dynamic};
  const std::vector<NamedTensor> parameters = net_.named_parameters();
  double most = kGrowth;
  for (std::size_t i = 0; i < std::min(parameters.size(), largest_at_first_.size()); ++i) {
    const double now = range_of(parameters[i].tensor).largest_magnitude();
    // Biases and scales that begin at 0 or 1 are compared with 1.
    const double growth = now / std::max(largest_at_first_[i], 0.1);
    if (now < kLargeWeight || growth < most) continue;
    most = growth;
    facts.grown = parameters[i].name;
    facts.grown_from = largest_at_first_[i];
    facts.grown_to = now;
  }
  return facts;
}

}  // namespace mezzo::numbers

#include "mezzo/numbers/activation_statistics.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/update/multi_tensor.h"

namespace mezzo::numbers {
namespace {

bool can_be_counted(const Tensor& tensor) {
  return tensor.defined() && is_trainable(tensor.dtype()) && tensor.numel() > 0 &&
         tensor.storage()->is_materialized();
}

Tensor one_block(const Tensor& tensor) {
  return tensor.is_one_block() ? tensor : contiguous(tensor);
}

ExponentCounts counts_of(const Tensor& tensor) {
  const Tensor block = one_block(tensor);
  return count_exponents({&block, 1}).front();
}

bool is_nothing_but_zeros(const ExponentCounts& counts) {
  return counts.zeros() > 0 && counts.zeros() == counts.total();
}

// True if every floating-point input that can be looked at has other elements than zeros.
bool has_nonzero_inputs(const amp::ObservedStepCall& call) {
  bool has_any = false;
  for (const Tensor* input : call.inputs) {
    if (!can_be_counted(*input)) continue;
    if (is_nothing_but_zeros(counts_of(*input))) return false;
    has_any = true;
  }
  return has_any;
}

// The loss, and the loss times its scale: nobody computes them in 16 bits.
bool is_loss(const CallId& id, const Tensor& result) {
  return id.path.empty() && result.numel() == 1;
}

void clear(amp::ExponentHistogram& histogram) {
  histogram.counts = {};
  histogram.passes = 0;
}

}  // namespace

ActivationStatistics::ActivationStatistics(nn::Module& net, Options options)
    : net_(net), options_(std::move(options)) {
  check_arg(options_.every >= 1, "activation_statistics",
            "the number of steps between counts must be at least 1: ", options_.every);
}

bool ActivationStatistics::begin_step(double /*scale*/) {
  const bool is_due = step_++ % options_.every == 0;
  if (is_due) begin_counting();
  return is_due;
}

// A step that failed may have left counts.
void ActivationStatistics::begin_counting() {
  for (CallHistogram& call : latest_) {
    clear(call.exponents);
    call.vanished = 0;
  }
  latest_weights_.clear();
  weights_.clear();
  std::vector<Tensor> blocks;
  for (const NamedTensor& entry : net_.state()) {
    if (!entry.tensor.defined()) continue;
    weights_.insert(entry.tensor.storage().get());
    if (!can_be_counted(entry.tensor)) continue;
    blocks.push_back(one_block(entry.tensor));
    latest_weights_.push_back({.name = entry.name, .shape = entry.tensor.shape(), .passes = 1});
  }
  const std::vector<ExponentCounts> counts = count_exponents(blocks);
  for (std::size_t i = 0; i < counts.size(); ++i) latest_weights_[i].counts = counts[i];
}

bool ActivationStatistics::is_counted(const amp::ObservedStepCall& call, std::size_t output) const {
  if (call.op.view != nullptr || call.results[output].output != 0) return false;
  const CallId& id = call.results[output].call;
  const Tensor& result = call.outputs[output];
  if (id.is_backward() || !can_be_counted(result) || is_loss(id, result)) return false;
  if (weights_.contains(result.storage().get())) return false;  // a buffer that was updated
  if (call.op.name != std::string_view("cast") || !call.inputs[0]->defined()) return true;
  // The 16-bit copy of a weight says what the weight does, and a wider copy what its input does.
  // Casts that kernels make for themselves have no module in a captured step.
  const Tensor& input = *call.inputs[0];
  return is_lower(result.dtype()) && !id.path.empty() && !weights_.contains(input.storage().get());
}

CallHistogram& ActivationStatistics::latest_of(const CallId& id) {
  const auto [place, is_new] = index_of_.try_emplace(id, latest_.size());
  if (is_new) latest_.push_back({.id = id, .exponents = {.name = id.text()}});
  return latest_[place->second];
}

// A kernel that does the work of several calls has results of each.
void ActivationStatistics::on_call(const amp::ObservedStepCall& call) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (!is_counted(call, i)) continue;
    const Tensor& result = call.outputs[i];
    const ExponentCounts counts = counts_of(result);
    CallHistogram& known = latest_of(call.results[i].call);
    known.dtype = result.dtype();
    known.exponents.shape = result.shape();
    known.exponents.counts += counts;
    ++known.exponents.passes;
    if (is_nothing_but_zeros(counts) && has_nonzero_inputs(call)) ++known.vanished;
  }
}

void ActivationStatistics::end_calls() {
  for (std::size_t i = 0; i < latest_.size(); ++i) {
    const CallHistogram& step = latest_[i];
    if (i == total_.size()) {
      total_.push_back(step);
      continue;
    }
    total_[i].dtype = step.dtype;
    total_[i].exponents.shape = step.exponents.shape;
    total_[i].exponents.merge(step.exponents);
    total_[i].vanished += step.vanished;
  }
  if (total_weights_.size() != latest_weights_.size()) {
    total_weights_ = latest_weights_;
  } else {
    for (std::size_t i = 0; i < total_weights_.size(); ++i) {
      total_weights_[i].merge(latest_weights_[i]);
    }
  }
  ++counted_steps_;
  if (options_.on_counted) options_.on_counted(*this);
}

}  // namespace mezzo::numbers

#include "mezzo/numbers/step_record.h"

#include <cstring>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/cpu.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::numbers {
namespace {

// While it exists, calls belong to the reader, not to the step.
struct Aside {
  WithoutCallListener not_heard{};
  NoGrad not_recorded{};
  amp::NoAutocast not_cast{};
};

}  // namespace

Tensor copy_on_host(const Tensor& tensor) {
  const Tensor host = tensor.to(kCpuDevice);
  if (!host.is_one_block()) return copy_of(host);
  const Tensor copy = empty(host.shape(), host.dtype(), host.format());
  if (host.numel() == 0) return copy;
  const auto* from = static_cast<const char*>(host.raw_data());
  auto* to = static_cast<char*>(copy.mutable_raw_data());
  constexpr std::int64_t kGrain = 1 << 18;
  parallel_for(static_cast<std::int64_t>(host.bytes()), kGrain,
               [&](std::int64_t begin, std::int64_t end) {
                 std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
               });
  return copy;
}

StepReader::StepReader(nn::Module& net, Options options) : net_(net), options_(std::move(options)) {
  check_arg(options_.step >= 1, "step_record", "the step must be at least 1: ", options_.step);
}

bool StepReader::begin_step(double scale) {
  if (++seen_ != options_.step) return false;
  facts_ = {.title = options_.title,
            .machine = cpu_name(),
            .threads = num_threads(),
            .step = seen_,
            .scale = scale};
  return true;
}

void StepReader::begin_calls(const Batch& batch) {
  const Aside aside;
  sources_.clear();
  calls_ = 0;
  begin(facts_);
  sources_.name_state(net_);
  sources_.name_batch(batch);
  for (const NamedTensor& entry : net_.state()) {
    take_source({.source = Source::kParameter, .named = entry});
  }
  for (const NamedTensor& entry : named_tensors_of(batch)) {
    take_source({.source = Source::kBatch, .named = entry});
  }
}

void StepReader::on_call(const amp::ObservedStepCall& call) {
  if (call.op.view != nullptr) {
    sources_.add_view(*call.inputs[0], call.outputs[0]);
    return;
  }
  RecordedCall recorded;
  for (const Tensor* input : call.inputs) {
    if (input->defined()) recorded.inputs.push_back({input->dtype(), sources_.of(*input)});
  }
  const std::vector<OwnError> own = own_errors(call, options_.measured);
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (!call.outputs[i].defined()) continue;
    sources_.add_result(call.outputs[i], calls_, recorded.results.size());
    recorded.results.push_back({.id = call.results[i],
                                .tensor = call.outputs[i].to(kCpuDevice),
                                .own = own[i],
                                .terms = terms_of(call, i)});
  }
  ++calls_;
  take_call(std::move(recorded));
}

void StepReader::on_gradients(std::span<const NamedTensor> gradients) {
  const Aside aside;
  for (const NamedTensor& gradient : gradients) take_gradient(gradient);
}

void StepReader::end_step(const amp::TrainStepResult& result) {
  facts_.loss = result.loss;
  facts_.is_skipped = result.skipped;
  sources_.clear();
  is_done_ = true;
  finish(facts_);
}

void StepRecorder::take_source(const RecordedSource& source) {
  record_.sources.push_back(
      {source.source, {source.named.name, copy_on_host(source.named.tensor)}});
}

void StepRecorder::take_call(RecordedCall call) {
  for (RecordedResult& result : call.results) result.tensor = copy_on_host(result.tensor);
  record_.calls.push_back(std::move(call));
}

void StepRecorder::take_gradient(const NamedTensor& gradient) {
  record_.gradients.push_back({gradient.name, copy_on_host(gradient.tensor)});
}

}  // namespace mezzo::numbers

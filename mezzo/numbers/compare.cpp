#include "mezzo/numbers/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::numbers {
namespace {

// Whether two results from equal inputs are further apart than roundings and the order of a sum
// explain, where nothing was measured. Two kernels are each off by that, and sums that cancel by
// more: hence the number of terms and not its root.
bool is_beyond_terms(const ComparedResult& result, double terms) {
  if (!is_floating(result.dtype_a)) return false;
  const double rounding = std::max(rounding_of(result.dtype_a), rounding_of(result.dtype_b));
  const double limit = 2 * (rounding + terms * epsilon_of(DType::kF32) / 2);
  return !(result.error <= limit &&
           result.difference.largest_to_largest() <= OwnError::kPeak * limit);
}

// The floating-point dtypes that a call reads.
std::set<DType> dtypes_of(const RecordedCall& call) {
  std::set<DType> dtypes;
  for (const RecordedInput& input : call.inputs) {
    if (is_floating(input.dtype)) dtypes.insert(input.dtype);
  }
  return dtypes;
}

// The error that is further beyond what explains it.
const OwnError& worse(const OwnError& a, const OwnError& b) {
  const auto excess = [](const OwnError& own) {
    return own.is_measured && own.explained > 0 ? own.error / own.explained : -1;
  };
  return excess(a) > excess(b) ? a : b;
}

// The loss times its scale. With two scales it differs, and says nothing.
bool is_scaled_loss(const ResultId& id, const Tensor& tensor) {
  return id.call.op == "mul" && id.call.path.empty() && !id.call.is_backward() &&
         tensor.numel() == 1;
}

ComparedTensor compared(const NamedTensor& a, const NamedTensor& b, double factor_a,
                        double factor_b) {
  ComparedTensor result{.name = b.name, .dtype_a = a.tensor.dtype(), .dtype_b = b.tensor.dtype()};
  result.difference = difference_of(a.tensor, b.tensor.to(kCpuDevice), factor_a, factor_b);
  result.error = result.difference.relative();
  return result;
}

// What compare_runs() shows to B.
class ComparingReader final : public StepReader {
 public:
  ComparingReader(nn::Module& net, Options options, const StepRecord& a)
      : StepReader(net, std::move(options)), comparer_(a) {}

  Comparison take() { return std::move(comparison_); }

 private:
  void begin(const RecordedStep& facts) override { comparer_.begin(facts.scale); }
  void take_source(const RecordedSource& source) override { comparer_.add_source(source); }
  void take_call(RecordedCall call) override { comparer_.add_call(call); }
  void take_gradient(const NamedTensor& gradient) override { comparer_.add_gradient(gradient); }
  void finish(const RecordedStep& facts) override { comparison_ = comparer_.finish(facts); }

  RunComparer comparer_;
  Comparison comparison_;
};

void check_made(const StepReader& reader) {
  check_arg(reader.is_done(), "compare_runs",
            "no step was observed. Make one with the observer that the function is given");
}

bool is_in_f64(const nn::Module& net) {
  const std::vector<Tensor> parameters = net.parameters();
  return !parameters.empty() && parameters.front().dtype() == DType::kF64;
}

bool computes_in_f64(const StepRecord& record) {
  return std::ranges::any_of(record.gradients, [](const NamedTensor& gradient) {
    return gradient.tensor.dtype() == DType::kF64;
  });
}

}  // namespace

RunComparer::RunComparer(const StepRecord& a) : a_(a) {
  for (std::size_t i = 0; i < a.calls.size(); ++i) {
    for (std::size_t k = 0; k < a.calls[i].results.size(); ++k) {
      places_[a.calls[i].results[k].id] = {.call = i, .result = k};
    }
  }
  for (const RecordedSource& source : a.sources) sources_a_[source.named.name] = &source;
  for (const NamedTensor& gradient : a.gradients) gradients_a_[gradient.name] = &gradient;
}

void RunComparer::add_source(const RecordedSource& source) {
  const auto found = sources_a_.find(source.named.name);
  if (found == sources_a_.end()) return;
  const NamedTensor& a = found->second->named;
  if (a.tensor.shape() != source.named.tensor.shape()) {
    sources_[source.named.name] = {false, std::numeric_limits<double>::infinity()};
    return;
  }
  const ComparedTensor result = compared(a, source.named, 1, 1);
  const bool is_same = result.dtype_a == result.dtype_b && result.difference.is_equal();
  sources_[source.named.name] = {is_same, result.error};
  comparison_.sources.push_back(result);
}

void RunComparer::add_gradient(const NamedTensor& gradient) {
  const auto found = gradients_a_.find(gradient.name);
  if (found == gradients_a_.end() || found->second->tensor.shape() != gradient.tensor.shape()) {
    return;
  }
  const bool is_scaled = a_.facts.scale != scale_b_;
  comparison_.gradients.push_back(compared(
      *found->second, gradient, is_scaled ? 1 / a_.facts.scale : 1, is_scaled ? 1 / scale_b_ : 1));
}

RunComparer::Known RunComparer::inputs_of(const RecordedCall& call) const {
  Known all;
  for (const RecordedInput& input : call.inputs) {
    Known known;
    if (input.origin.source == Source::kCall) {
      known = known_[input.origin.call][input.origin.output];
    } else if (const auto found = sources_.find(input.origin.name); found != sources_.end()) {
      known = found->second;
    }
    all.is_same &= known.is_same;
    all.error = std::max(all.error, known.error);
  }
  return all;
}

void RunComparer::add_call(const RecordedCall& call) {
  const Known inputs = inputs_of(call);
  std::vector<Known> known;
  for (const RecordedResult& result : call.results) known.push_back(compare(call, result, inputs));
  known_.push_back(std::move(known));
}

// A result that A does not have, such as a cast, is as good as its inputs, but never the same.
RunComparer::Known RunComparer::compare(const RecordedCall& call, const RecordedResult& result,
                                        const Known& inputs) {
  const Known unknown{false, inputs.error};
  const auto found = places_.find(result.id);
  if (found == places_.end()) {
    comparison_.not_compared.push_back({result.id, "only in B"});
    return unknown;
  }
  found->second.is_met = true;
  const RecordedCall& call_a = a_.calls[found->second.call];
  const RecordedResult& a = call_a.results[found->second.result];
  if (a.tensor.shape() != result.tensor.shape()) {
    comparison_.not_compared.push_back(
        {result.id, concat("the shapes are ", a.tensor.shape(), " and ", result.tensor.shape())});
    return unknown;
  }
  if (a_.facts.scale != scale_b_ && is_scaled_loss(result.id, result.tensor)) return unknown;
  ComparedResult compared = differences(a, result);
  compared.input_error = inputs.error;
  if (!compared.difference.is_equal() || compared.dtype_a != compared.dtype_b) {
    const bool has_same_dtypes =
        compared.dtype_a == compared.dtype_b && dtypes_of(call_a) == dtypes_of(call);
    compared.reason = !has_same_dtypes  ? Reason::kPrecision
                      : !inputs.is_same ? Reason::kInputs
                                        : Reason::kSameInputs;
  }
  compared.is_jump = a.own.is_beyond() || result.own.is_beyond() ||
                     (compared.reason == Reason::kSameInputs && !compared.own.is_measured &&
                      is_beyond_terms(compared, result.terms));
  const bool is_number = is_floating(compared.dtype_a);
  const Known known{compared.reason == Reason::kEqual, is_number ? compared.error : inputs.error};
  add(std::move(compared));
  return known;
}

ComparedResult RunComparer::differences(const RecordedResult& a, const RecordedResult& b) const {
  const bool divides = a_.facts.scale != scale_b_ && b.id.call.is_backward();
  ComparedResult compared{.id = b.id,
                          .shape = a.tensor.shape(),
                          .dtype_a = a.tensor.dtype(),
                          .dtype_b = b.tensor.dtype()};
  compared.difference = difference_of(a.tensor, b.tensor, divides ? 1 / a_.facts.scale : 1,
                                      divides ? 1 / scale_b_ : 1);
  // Of indices only whether they are equal says something.
  if (is_floating(compared.dtype_a)) compared.error = compared.difference.relative();
  compared.own = worse(a.own, b.own);
  return compared;
}

void RunComparer::add(ComparedResult compared) {
  const std::size_t at = comparison_.results.size();
  const auto set_first = [at](std::optional<std::size_t>& first, bool is_one) {
    if (is_one && !first.has_value()) first = at;
  };
  set_first(comparison_.first_difference, !compared.difference.is_equal());
  set_first(comparison_.first_same_inputs, compared.reason == Reason::kSameInputs);
  set_first(comparison_.first_jump, compared.is_jump);
  if (compared.own.is_measured) ++comparison_.measured;
  comparison_.results.push_back(std::move(compared));
}

void RunComparer::list_missing() {
  for (const auto& [id, place] : places_) {
    if (!place.is_met) comparison_.not_compared.push_back({id, "only in A"});
  }
}

Comparison RunComparer::finish(const RecordedStep& b) {
  list_missing();
  comparison_.a = a_.facts;
  comparison_.b = b;
  return std::move(comparison_);
}

Comparison compare_records(const StepRecord& a, const StepRecord& b) {
  RunComparer comparer(a);
  comparer.begin(b.facts.scale);
  for (const RecordedSource& source : b.sources) comparer.add_source(source);
  for (const RecordedCall& call : b.calls) comparer.add_call(call);
  for (const NamedTensor& gradient : b.gradients) comparer.add_gradient(gradient);
  return comparer.finish(b.facts);
}

Comparison compare_run(const StepRecord& a, const StepRun& b, Measured measured) {
  const Measured wanted = computes_in_f64(a) ? Measured::kAll : measured;
  ComparingReader reader(b.net, {.title = b.title, .measured = wanted}, a);
  b.make(reader);
  check_made(reader);
  return reader.take();
}

Comparison compare_runs(const StepRun& a, const StepRun& b) {
  const Measured measured = is_in_f64(b.net) ? Measured::kAll : Measured::k16Bits;
  StepRecorder recorder(a.net, {.title = a.title, .measured = measured});
  a.make(recorder);
  check_made(recorder);
  return compare_run(recorder.record(), b);
}

}  // namespace mezzo::numbers

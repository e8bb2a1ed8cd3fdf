#include "mezzo/amp/observed_calls.h"

#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::amp {

ObservedCalls::ObservedCalls(std::vector<StepObserver*> observers)
    : observers_(std::move(observers)) {
  if (!observers_.empty()) listening_.emplace(static_cast<CallListener&>(*this));
}

void ObservedCalls::end() {
  listening_.reset();
  for (StepObserver* observer : observers_) observer->end_calls();
}

void ObservedCalls::pass_on(const FinishedCall& call, bool is_change) {
  const WithoutCallListener not_of_the_step;
  const NoGrad not_recorded;
  const NoAutocast not_cast;
  const std::vector<ResultId> results = names_.names(call);
  const ObservedStepCall observed{.op = call.op,
                                  .inputs = call.inputs,
                                  .attrs = call.attrs,
                                  .outputs = call.outputs,
                                  .results = results,
                                  .joined = call.joined,
                                  .is_change = is_change};
  for (StepObserver* observer : observers_) observer->on_call(observed);
}

}  // namespace mezzo::amp

// What one training step computed: every call's results, the gradients, and what the step read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mezzo/amp/step_observer.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/named_tensor.h"
#include "mezzo/nn/module.h"
#include "mezzo/numbers/operand_sources.h"
#include "mezzo/numbers/own_error.h"

namespace mezzo::numbers {

struct RecordedInput {
  DType dtype = DType::kF32;
  Origin origin{};
};

struct RecordedResult {
  ResultId id{};
  Tensor tensor{};  // on the host
  OwnError own{};
  double terms = 1;  // terms_of()
};

// A call that was no view: those compute nothing.
struct RecordedCall {
  std::vector<RecordedInput> inputs{};  // those that are defined
  std::vector<RecordedResult> results{};

  const CallId& id() const { return results.front().id.call; }
};

// A tensor that existed before the step.
struct RecordedSource {
  Source source = Source::kParameter;
  NamedTensor named{};
};

// The run and the step whose numbers these are.
struct RecordedStep {
  std::string title{};    // `lenet5 O2/bf16`
  std::string machine{};  // cpu_name()
  std::int64_t threads = 0;
  std::int64_t step = 1;  // from 1
  double scale = 1;       // of the loss, and so of all gradients
  double loss = 0;        // unscaled
  bool is_skipped = false;
};

struct StepRecord {
  RecordedStep facts{};
  std::vector<RecordedSource> sources{};
  std::vector<RecordedCall> calls{};
  std::vector<NamedTensor> gradients{};  // of the parameters, times facts.scale
};

// Follows the calls of one step. Derived classes keep, write or compare what they are given, whose
// elements last until they return.
class StepReader : public amp::StepObserver {
 public:
  struct Options {
    std::string title{};
    std::int64_t step = 1;  // which of the steps that this observer sees, from 1
    Measured measured = Measured::k16Bits;
  };

  // The network must outlive this object.
  StepReader(nn::Module& net, Options options);

  // True once the step was read.
  bool is_done() const { return is_done_; }
  // The number of steps that were done before those that this observer sees.
  void set_steps_before(std::int64_t steps) { seen_ = steps; }

  bool begin_step(double scale) final;
  void begin_calls(const Batch& batch) final;
  bool sees_gradients() const final { return true; }
  void on_call(const amp::ObservedStepCall& call) final;
  void on_gradients(std::span<const NamedTensor> gradients) final;
  void end_step(const amp::TrainStepResult& result) final;

 protected:
  const Options& options() const { return options_; }
  // Before the calls; of the facts, all but the loss are known.
  virtual void begin(const RecordedStep& /*facts*/) {}
  virtual void take_source(const RecordedSource& source) = 0;
  virtual void take_call(RecordedCall call) = 0;
  virtual void take_gradient(const NamedTensor& gradient) = 0;
  virtual void finish(const RecordedStep& facts) = 0;

 private:
  nn::Module& net_;
  Options options_;
  OperandSources sources_;
  std::size_t calls_ = 0;
  std::int64_t seen_ = 0;
  RecordedStep facts_;
  bool is_done_ = false;
};

// Keeps a step in memory.
class StepRecorder final : public StepReader {
 public:
  using StepReader::StepReader;

  const StepRecord& record() const { return record_; }
  StepRecord take() { return std::move(record_); }

 private:
  void take_source(const RecordedSource& source) override;
  void take_call(RecordedCall call) override;
  void take_gradient(const NamedTensor& gradient) override;
  void finish(const RecordedStep& facts) override { record_.facts = facts; }

  StepRecord record_;
};

// A copy of a tensor's elements on the host, in the tensor's own dtype and layout.
Tensor copy_on_host(const Tensor& tensor);

}  // namespace mezzo::numbers

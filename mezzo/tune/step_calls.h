// The operations of a training step's forward pass, and the tensors that go from one to another.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/step_observer.h"
#include "mezzo/nn/module.h"
#include "mezzo/numbers/operand_sources.h"

namespace mezzo::tune {

// All calls of one operation in the forward pass of one module: what a plan has a row for. Only
// operations with a floating-point input that may be cast are among them.
struct StepOperation {
  std::string module{};
  const OpDef* op = nullptr;
  std::int64_t calls = 0;
  // Elements of results, all of which are in the operation's dtype.
  std::int64_t results = 0;
  // Elements of inputs that are f32 whatever the plan says, and are cast if the operation is in 16
  // bits: those of the batch and of operations that no plan has a row for; and those of parameters.
  std::int64_t f32_inputs = 0;
  std::int64_t parameters = 0;
  // Elements of results that are read in f32 in any case: by the loss.
  std::int64_t f32_reads = 0;

  // Calls that may have eight bits: has_scaled_form().
  std::int64_t scalable_calls = 0;

  // `layer1.0.conv1: conv2d`.
  std::string text() const { return module.empty() ? op->name : module + ": " + op->name; }
  // A convolution, which may be computed by Winograd's method.
  bool has_exact_form() const;
  // Whether e4m3 is a choice for it.
  bool can_have_eight_bits() const { return scalable_calls == calls; }
};

// A tensor that one operation computes and another one reads. If they have different dtypes, it is
// cast, and in the backward pass so is its gradient.
struct StepEdge {
  std::size_t maker = 0;  // indices of operations
  std::size_t reader = 0;
  std::int64_t elements = 0;  // of all such tensors
};

struct StepCalls {
  std::vector<StepOperation> operations{};  // in the order of their first calls
  std::vector<StepEdge> edges{};            // one per pair

  std::optional<std::size_t> find(const std::string& module, const std::string& op) const;
};

// Whether the operation of that name is a part of a product in eight bits: its casts, and itself.
bool is_scaled_part(const std::string& op);
// The operation of a call; of a part of a product in eight bits, the module's product.
std::optional<std::size_t> product_or_call(const StepCalls& calls, const std::string& module,
                                           const std::string& op);

// Collects the calls of a step that computes in f32.
class CollectStepCalls final : public amp::StepObserver {
 public:
  // The network must outlive this object.
  explicit CollectStepCalls(const nn::Module& net) : net_(net) {}

  const StepCalls& calls() const { return calls_; }

  bool begin_step(double /*scale*/) override { return true; }
  void begin_calls(const Batch& batch) override;
  void on_call(const amp::ObservedStepCall& call) override;

 private:
  std::optional<std::size_t> operation_of(const amp::ObservedStepCall& call);
  void read_in_f32(const Tensor& input);
  void read(const Tensor& input, std::size_t reader);
  std::optional<std::size_t> maker_of(const Tensor& input, numbers::Source& source);

  const nn::Module& net_;
  numbers::OperandSources sources_;
  StepCalls calls_;
  std::map<std::pair<std::string, const OpDef*>, std::size_t> known_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> edges_;
  std::vector<std::optional<std::size_t>> makers_;  // the operation of each call
};

}  // namespace mezzo::tune

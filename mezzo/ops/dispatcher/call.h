// The dispatcher: every operation of mezzo goes through call(), in five steps.
//
//   1. precision   autocast casts the inputs, if a mixed-precision region is active. This comes
//                  first, so that the small copy is what the backward pass saves, and so that
//                  promotion sees the dtypes that the kernel computes with.
//   2. promotion   inputs that must agree are cast to their common dtype.
//   3. inference   shapes and dtypes of the outputs; bad inputs end here with a message.
//   4. kernel      the first kernel of the device that supports the call, the plain loop last.
//   5. tape        if an input takes part in differentiation, a node is recorded.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "mezzo/core/scoped.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

// The inputs of one call on their way through the dispatcher: a step may replace an input by its
// cast.
class Operands {
 public:
  explicit Operands(Inputs inputs);

  std::size_t size() const { return inputs_.size(); }
  const Tensor& operator[](std::size_t i) const { return *inputs_[i]; }
  void replace(std::size_t i, Tensor tensor);
  Inputs view() const { return inputs_; }

 private:
  static constexpr std::size_t kInline = 8;
  // Calls rarely have more inputs than fit here; `cat` may.
  std::array<const Tensor*, kInline> pointers_{};
  std::array<Tensor, kInline> owned_;
  std::vector<const Tensor*> more_pointers_;
  std::vector<Tensor> more_owned_;
  std::span<const Tensor*> inputs_;
  std::span<Tensor> replaced_;
};

// Casts the operands that must share a dtype to the widest among them.
void promote_inputs(const OpDef& op, Operands& operands);

// A snapshot of how a thread's calls are cast, for recomputing something in the same way later.
class PrecisionContext {
 public:
  virtual ~PrecisionContext() = default;
  virtual void run(const std::function<void()>& body) const = 0;
};

// Casts the inputs of calls in a mixed-precision region; implemented by amp. Each thread has its
// own hook; it is null outside of regions.
class PrecisionHook {
 public:
  virtual void prepare(const OpDef& op, Operands& operands) = 0;
  // A snapshot of the current casts of this thread.
  virtual std::shared_ptr<const PrecisionContext> context() const = 0;

 protected:
  ~PrecisionHook() = default;
};
PrecisionHook* precision_hook();
void set_precision_hook(PrecisionHook* hook);

// While it exists, this thread's calls compute in the dtypes of their operands: for casts, in-place
// updates, and operations that call other operations.
class WithoutPrecisionHook {
 public:
  WithoutPrecisionHook();

 private:
  Scoped<PrecisionHook*> scope_;
};

// The results of a call.
class Outputs {
 public:
  explicit Outputs(std::size_t count) : count_(count) {}
  std::size_t size() const { return count_; }
  Tensor& operator[](std::size_t i) { return tensors_[i]; }
  const Tensor& operator[](std::size_t i) const { return tensors_[i]; }
  std::span<Tensor> view() { return {tensors_.data(), count_}; }

 private:
  std::array<Tensor, kMaxOutputs> tensors_;
  std::size_t count_;
};

// Runs `op` on the inputs. Throws ArgumentError for bad inputs, UnsupportedError if no kernel fits.
Outputs call(const OpDef& op, Inputs inputs, const Attrs& attrs = {});
inline Outputs call(const OpDef& op, std::initializer_list<const Tensor*> inputs,
                    const Attrs& attrs = {}) {
  return call(op, Inputs(inputs.begin(), inputs.size()), attrs);
}

// Like call(), for operations with one result.
inline Tensor call_one(const OpDef& op, std::initializer_list<const Tensor*> inputs,
                       const Attrs& attrs = {}) {
  return std::move(call(op, inputs, attrs)[0]);
}

// Like call(), but may write results over tensors that the caller no longer needs, which saves
// their memory and the time to read new memory. Output i is written over *over[i] if that is not
// null, nobody else uses its elements, and it has the output's shape, dtype and format; otherwise
// into new memory. *over[i] may be an input. Only for operations whose kernels read all inputs of
// an element before they write it.
Outputs call_over(const OpDef& op, std::initializer_list<const Tensor*> inputs, const Attrs& attrs,
                  std::initializer_list<const Tensor*> over);
Outputs call_over(const OpDef& op, Inputs inputs, const Attrs& attrs, Inputs over);

// Runs `op` with its result written over `destination` (an in-place change, never recorded and
// without autocast). The result must have the destination's shape and dtype. Throws ArgumentError
// if the destination takes part in differentiation while recording is on.
void call_into(const OpDef& op, std::initializer_list<const Tensor*> inputs, const Attrs& attrs,
               const Tensor& destination);

}  // namespace mezzo

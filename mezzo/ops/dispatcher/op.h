// OpDef: the complete definition of an operation, in one place.
//
// Autocast, the tape, the tests' sweeps, `mezzo ops` and docs/ops.md all read this and nothing
// else.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct OpKernels;
class Node;

// How an operation's floating-point inputs are cast in a mixed-precision region.
enum class PrecisionClass : std::uint8_t {
  kLower,    // gains from 16 bits: inputs are cast to the lower dtype
  kFloat32,  // needs range or accuracy: 16-bit inputs are cast to f32
  kWidest,   // inputs must agree: cast to the widest among them
  kFollow,   // takes any dtype
  kKeep,     // takes any dtype, and loses accuracy if it is narrowed: normalisation
  kRefuse,   // wrong in 16 bits: throws, and the reason names an alternative
};
const char* name_of(PrecisionClass precision_class);

inline constexpr std::uint32_t kAllInputs = ~0U;

// Bit i of a mask over inputs. Operations on lists may have more inputs than a mask has bits; the
// last bit then stands for all others.
constexpr bool has_bit(std::uint32_t mask, std::size_t i) {
  return (mask >> (i < 31 ? i : 31) & 1U) != 0;
}

// How mixed precision casts an operation's inputs, depending on the lower dtype. bf16 has f32's
// range and 8 bits of precision. f16 has 11 bits and ends at 65504, so some operations that work in
// bf16 overflow in f16.
struct PrecisionRule {
  PrecisionClass lower = PrecisionClass::kFollow;
  // The class for dtypes with a narrow range (has_narrow_range()), if it differs.
  std::optional<PrecisionClass> narrow_range{};
  std::uint32_t cast_mask = kAllInputs;  // bit i: input i may be cast
  const char* reason = nullptr;          // required: why these classes

  constexpr PrecisionClass of(DType dtype) const {
    return has_narrow_range(dtype) ? narrow_range.value_or(lower) : lower;
  }
  bool may_cast(std::size_t input) const { return has_bit(cast_mask, input); }
};

struct TensorSpec {
  Shape shape;
  DType dtype = DType::kF32;
  Format format = Format::kContiguous;

  bool operator==(const TensorSpec&) const = default;
};

inline constexpr std::size_t kMaxOutputs = 4;

// The inputs of a call, by reference; an undefined tensor stands for an absent optional input.
using Inputs = std::span<const Tensor* const>;

// Shape inference: reads the inputs' shapes and dtypes, checks them, and states the outputs.
class Infer {
 public:
  Infer(const char* op, Inputs inputs, const Attrs& attrs)
      : op_(op), inputs_(inputs), attrs_(attrs) {}

  const char* op() const { return op_; }
  std::size_t size() const { return inputs_.size(); }
  const Tensor& input(std::size_t i) const { return *inputs_[i]; }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i]->defined(); }
  // These throw if the input is absent, which only optional inputs may be: check has() first.
  const Shape& shape(std::size_t i) const { return given(i).shape(); }
  DType dtype(std::size_t i) const { return given(i).dtype(); }
  template <class T>
  const T& attrs() const {
    return attrs_.as<T>();
  }

  template <class... Parts>
  void check(bool ok, const Parts&... parts) const {
    check_arg(ok, op_, parts...);
  }
  // Throws unless input i has that rank; `name` is its name in the message.
  void check_rank(std::size_t i, std::size_t rank, const char* name) const;
  // Throws unless input i is floating-point.
  void check_floating(std::size_t i, const char* name) const;
  // Throws unless inputs a and b have the same dtype.
  void check_same_dtype(std::size_t a, std::size_t b) const;

  // States the next output. Throws if its number of bytes overflows.
  void output(const Shape& shape, DType dtype, Format format = Format::kContiguous);
  // States an output with the shape, dtype and format of input i.
  void output_like(std::size_t i) { output(shape(i), dtype(i), input(i).format()); }

  std::span<const TensorSpec> outputs() const { return {outputs_.data(), count_}; }

 private:
  const Tensor& given(std::size_t i) const {
    check(inputs_[i]->defined(), "input ", i, " is an undefined tensor. Assign it first");
    return *inputs_[i];
  }

  const char* op_;
  Inputs inputs_;
  const Attrs& attrs_;
  std::array<TensorSpec, kMaxOutputs> outputs_;
  std::size_t count_ = 0;
};

// The interface of a gradient function: it provides the gradients of the outputs and the saved
// tensors, and receives the results.
class Backward {
 public:
  struct Mode {
    bool create_graph = false;
    bool retain_graph = false;
  };
  Backward(Node& node, std::span<Tensor> grad_outputs, std::span<Tensor> grad_inputs, Mode mode);

  // The gradient of output i; undefined if no gradient flowed into that output.
  const Tensor& grad(std::size_t i = 0) const { return grad_outputs_[i]; }
  // A saved input or output. Throws ArgumentError if it was changed in place since.
  Tensor input(std::size_t i) const;
  Tensor output(std::size_t i = 0) const;
  // Like output(), but undefined if the output is not kept: see OpDef::again.
  Tensor output_if_kept(std::size_t i = 0) const;
  // Moves the gradient or input out of the node. Unless the graph is retained or somebody else has
  // the tensor, the caller then owns it alone and may have results written over it (see
  // call_over()).
  Tensor take_grad(std::size_t i = 0);
  Tensor take_input(std::size_t i);
  // For operations that add gradients themselves: the second gradient of output 0, or undefined.
  Tensor take_other_grad();
  // The context that record() was given. Throws ArgumentError once the graph was freed.
  RefCounted& context() const;
  // For tensors that a context keeps: throws ArgumentError if `kept` was changed in place since
  // `version`. `what` and `number` are its name in the message.
  void check_unchanged(const Tensor& kept, std::uint64_t version, const char* what,
                       std::size_t number) const;
  // Output i, from a copy without history that was kept. It gets its history if create_graph()
  // needs it.
  Tensor as_output(std::size_t i, const Tensor& kept) const;
  std::size_t inputs() const;
  bool has_input(std::size_t i) const;  // false for absent optional inputs
  const Shape& input_shape(std::size_t i) const;
  Format input_format(std::size_t i) const;
  DType input_dtype(std::size_t i) const;
  template <class T>
  const T& attrs() const {
    return attrs_of(*this).template as<T>();
  }
  // True if the gradient of input i is needed.
  bool needs(std::size_t i) const;
  // The preferred dtype for the gradient of input i: f32 if the input is the 16-bit copy of an f32
  // tensor, so that the kernel's f32 sums reach a parameter unrounded; else its own dtype.
  DType grad_dtype(std::size_t i) const;
  // Whether grad_dtype(i) is wider than the input's own dtype.
  bool has_wide_grad(std::size_t i) const { return grad_dtype(i) != input_dtype(i); }
  // True if the gradients will be differentiated again. They must then consist of differentiable
  // operations instead of a fused kernel.
  bool create_graph() const { return mode_.create_graph; }

  // Sets the gradient of input i.
  void set(std::size_t i, Tensor grad);

 private:
  static const Attrs& attrs_of(const Backward& backward);

  Node& node_;
  std::span<Tensor> grad_outputs_;
  std::span<Tensor> grad_inputs_;
  Mode mode_;
};

// What an operation is tested with (ops/dispatcher/sample.h).
struct Sample;
struct ErrorSample;

// Which inputs and outputs a gradient function reads: bit i stands for input or output i.
// Everything else is freed as soon as the forward pass no longer needs it.
struct Saves {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  // The saved inputs that may be recomputed rather than kept: see OpDef::again.
  std::uint32_t again = 0;
  // Inputs that are also saved if the gradient of another operation keeps them anyway.
  std::uint32_t if_kept = 0;
};

struct OpDef {
  const char* name;
  const char* doc;  // one sentence, with the shapes
  PrecisionRule precision;
  Saves saves{};
  std::uint32_t promote = 0;  // inputs that are cast to their common dtype when they differ
  void (*infer)(Infer&) = nullptr;
  // For views: returns a tensor over the input's memory. Views have no kernel.
  Tensor (*view)(const Tensor& input, const Attrs& attrs) = nullptr;
  // Multiplications and additions of a call's products. Null for operations without products, whose
  // time is that of memory traffic.
  double (*flops)(Inputs inputs, std::span<const Tensor> outputs, const Attrs& attrs) = nullptr;
  // Sets the gradients of the inputs; null if the operation is not differentiable.
  void (*backward)(Backward&) = nullptr;
  // Returns a tensor like output 0 that recomputes its elements when they are first read, from the
  // other tensors that the node saves. The node need not keep output 0 from then on. Returns an
  // undefined tensor where keeping is better. Null for operations without such a form.
  Tensor (*again)(Node&) = nullptr;
  // Whether a call exchanges values with other processes. Null for operations that never do.
  bool (*exchanges)(const Attrs& attrs) = nullptr;
  std::uint32_t grad_inputs = kAllInputs;  // inputs that have gradients
  std::uint32_t grad_outputs = 0b1;        // outputs that carry gradients; not those for the
                                           // backward
  // Calls for the sweeps. With `exact`, small integers must give the exact result in every dtype.
  std::vector<Sample> (*samples)() = nullptr;
  std::vector<ErrorSample> (*errors)() = nullptr;
  bool exact = false;
  double ulps = 1;  // rounding errors of f32 arithmetic besides those of sums, for the tolerance
  // True if the gradient function takes two gradients of output 0, take_grad() and
  // take_other_grad(), and adds them itself, rounding like add(). This saves a pass over memory.
  bool adds_grads = false;
  // True for operations that read tensors of eight bits: casts and scaled products. Views read
  // nothing. All others refuse them, since the numbers mean nothing without their scales.
  bool takes_eight_bits = false;
  // True for cast: a gradient may arrive in f32 although the output is a 16-bit tensor.
  bool takes_f32_grad = false;
  // True if an input's gradient may be a sum of several, which is f32 for a 16-bit leaf and stays
  // f32.
  bool sums_grads = false;
  // True if the gradient function is a user's, which may call backward() itself.
  bool may_call_backward = false;

  mutable std::atomic<const OpKernels*> kernels{nullptr};  // filled at the first call
};

}  // namespace mezzo

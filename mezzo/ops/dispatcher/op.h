// OpDef: everything there is to say about an operation, in one place.
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

// What an operation wants done to its floating-point inputs in a mixed-precision region.
enum class PrecisionClass : std::uint8_t {
  kLower,    // gains from 16 bits: inputs are cast to the lower dtype
  kFloat32,  // needs range or accuracy: 16-bit inputs are cast to f32
  kWidest,   // inputs must agree: cast to the widest among them
  kFollow,   // takes what comes
  kKeep,     // takes what comes, and loses by narrowing it: normalisation
  kRefuse,   // wrong in 16 bits: throws, and the reason says what to use instead
};
const char* name_of(PrecisionClass precision_class);

inline constexpr std::uint32_t kAllInputs = ~0U;

// Bit i of a mask over inputs. Operations on lists have more inputs than a mask has bits; the last
// bit then speaks for the rest.
constexpr bool has_bit(std::uint32_t mask, std::size_t i) {
  return (mask >> (i < 31 ? i : 31) & 1U) != 0;
}

// What mixed precision does with an operation, by what a lower dtype is like. bf16 has f32's range
// and 8 bits of precision; f16 has 11 bits and ends at 65504, so that some operations which bf16
// can do overflow in it.
struct PrecisionRule {
  PrecisionClass lower = PrecisionClass::kFollow;
  // Where it is not the same for dtypes that end long before f32 does (has_narrow_range()).
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
  // These throw if it is absent, which only optional inputs may be: ask has() for those.
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
  // Throws unless input i has that rank; `name` is what the message calls it.
  void check_rank(std::size_t i, std::size_t rank, const char* name) const;
  // Throws unless input i is floating-point.
  void check_floating(std::size_t i, const char* name) const;
  // Throws unless inputs a and b have the same dtype.
  void check_same_dtype(std::size_t a, std::size_t b) const;

  // States the next output. Throws if it has more bytes than can be counted.
  void output(const Shape& shape, DType dtype, Format format = Format::kContiguous);
  // An output with the shape, dtype and format of input i.
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

// What a gradient function sees: gradients of the outputs, what was saved, and where to put
// results.
class Backward {
 public:
  struct Mode {
    bool create_graph = false;
    bool retain_graph = false;
  };
  Backward(Node& node, std::span<Tensor> grad_outputs, std::span<Tensor> grad_inputs, Mode mode);

  // The gradient of output i; undefined if nothing flowed into that output.
  const Tensor& grad(std::size_t i = 0) const { return grad_outputs_[i]; }
  // A saved input or output. Throws ArgumentError if it was changed in place since.
  Tensor input(std::size_t i) const;
  Tensor output(std::size_t i = 0) const;
  // The same, or undefined if the output is to be done without: see OpDef::again.
  Tensor output_if_kept(std::size_t i = 0) const;
  // The same for the last time: unless the graph is retained, or somebody else has the tensor, the
  // caller is the only one who still sees it and may have results written over it (see
  // call_over()).
  Tensor take_grad(std::size_t i = 0);
  Tensor take_input(std::size_t i);
  // For operations that add gradients themselves: the second one of output 0, or undefined.
  Tensor take_other_grad();
  // What record() was given besides the call. Throws ArgumentError once the graph was freed.
  RefCounted& context() const;
  // For what a context keeps: throws ArgumentError if the tensor was changed in place since it had
  // that version; `what` and `number` are what the message calls it.
  void check_unchanged(const Tensor& kept, std::uint64_t version, const char* what,
                       std::size_t number) const;
  // An output without history, as it was kept, with its history if that will be asked for.
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
  // True if somebody wants the gradient of input i.
  bool needs(std::size_t i) const;
  // The dtype in which the gradient of input i is best given: f32 if the input is the 16-bit copy
  // of an f32 tensor, so that the kernel's f32 sums reach a parameter unrounded; else its own
  // dtype.
  DType grad_dtype(std::size_t i) const;
  // Whether that is wider than the input's own.
  bool has_wide_grad(std::size_t i) const { return grad_dtype(i) != input_dtype(i); }
  // True if the gradients will be differentiated again: they must then be made of differentiable
  // operations, not of a fused kernel.
  bool create_graph() const { return mode_.create_graph; }

  // Gives the gradient of input i.
  void set(std::size_t i, Tensor grad);

 private:
  static const Attrs& attrs_of(const Backward& backward);

  Node& node_;
  std::span<Tensor> grad_outputs_;
  std::span<Tensor> grad_inputs_;
  Mode mode_;
};

// One input of a sample call.
struct SampleInput {
  Shape shape;
  double low = -1;  // values are uniform in [low, high)
  double high = 1;
  bool integer = false;  // i64 values in [low, high) instead
  bool absent = false;   // an optional input that is not given
  bool boolean = false;  // kBool values instead, low and high do not count

  // The dtype of its values in a call whose floating-point inputs have that one.
  DType dtype_in(DType floating) const {
    if (boolean) return DType::kBool;
    return integer ? DType::kI64 : floating;
  }
};

// A call that the tests' sweeps make: every op, dtype, layout.
struct Sample {
  std::vector<SampleInput> inputs{};
  Attrs attrs{};
  std::int64_t terms = 1;  // numbers added up for one output element; sets the tolerance
  double magnitude = 1;    // bound of one term's absolute value
};

// A call that must fail, and a part of its message.
struct ErrorSample {
  std::vector<SampleInput> inputs{};
  Attrs attrs{};
  const char* message = "";
};

// Which inputs and outputs a gradient function reads: bit i stands for input or output i.
// Everything else is freed as soon as the forward pass is done with it.
struct Saves {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  // Of the inputs, those that may be computed again rather than kept: see OpDef::again.
  std::uint32_t again = 0;
  // Inputs that are saved, too, if the gradient of another operation keeps them anyway.
  std::uint32_t if_kept = 0;
};

struct OpDef {
  const char* name;
  const char* doc;  // one sentence, with the shapes
  PrecisionRule precision;
  Saves saves{};
  std::uint32_t promote = 0;  // inputs that are cast to their common dtype when they differ
  void (*infer)(Infer&) = nullptr;
  // Views: a tensor over the input's memory, instead of a kernel.
  Tensor (*view)(const Tensor& input, const Attrs& attrs) = nullptr;
  // Multiplications and additions of a call's products. Null for operations without any, whose time
  // is that of moving their operands.
  double (*flops)(Inputs inputs, std::span<const Tensor> outputs, const Attrs& attrs) = nullptr;
  // Gives the gradients of the inputs; null if the operation is not differentiable.
  void (*backward)(Backward&) = nullptr;
  // A tensor like output 0 that computes its elements again when it is asked for them, from what
  // the node saves besides; the node itself need not keep output 0 from then on. Undefined where
  // keeping is better. Null for operations without such a form.
  Tensor (*again)(Node&) = nullptr;
  std::uint32_t grad_inputs = kAllInputs;  // inputs that have gradients
  std::uint32_t grad_outputs = 0b1;  // outputs that carry gradients; others are for the backward
  // What the sweeps try. `exact`: on small integers every dtype must give the exact result.
  std::vector<Sample> (*samples)() = nullptr;
  std::vector<ErrorSample> (*errors)() = nullptr;
  bool exact = false;
  double ulps = 1;  // rounding errors of f32 arithmetic beyond the sums, for the tolerance
  // True if the gradient function takes two gradients of output 0, take_grad() and
  // take_other_grad(), and adds them itself, rounded as add() rounds: a pass over memory less.
  bool adds_grads = false;
  // True for cast: a gradient may arrive in f32 although the output is a 16-bit tensor.
  bool takes_f32_grad = false;
  // The gradient of an input may be a sum of several, which is f32 for a 16-bit leaf and stays so.
  bool sums_grads = false;

  mutable std::atomic<const OpKernels*> kernels{nullptr};  // filled at the first call
};

}  // namespace mezzo

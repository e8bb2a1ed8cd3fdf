// What the kernels that call oneDNN share: a cache of primitives, packed weights, execution.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

#include <dnnl.hpp>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/onednn/onednn_api.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/update/packed_copy.h"

namespace mezzo::kernels::onednn {

using Desc = dnnl::memory::desc;

const dnnl::engine& engine();

// The oneDNN type of f32 and bf16, the two it computes with on CPUs.
dnnl::memory::data_type type_of(DType dtype);

// Attributes of every primitive: scratch memory from us, so that it is cached and counted, and no
// silent rounding of f32 operands.
dnnl::primitive_attr attributes();

// Everything that decides which primitive a call needs, as a short list of numbers.
class Key {
 public:
  // `family` tells users of the cache apart. The thread count is part of every key: primitives
  // divide their work when they are made.
  explicit Key(std::uint64_t family);
  void add(std::int64_t number) { numbers_[count_++] = number; }
  void add(const Shape& shape);
  void add(DType dtype) { add(static_cast<std::int64_t>(dtype)); }

  std::uint64_t hash() const;
  bool operator==(const Key& other) const;

 private:
  std::array<std::int64_t, 48> numbers_;  // a product of rank 6 has 42
  std::size_t count_ = 0;
};

// A primitive and the layouts it wants.
struct Primitive {
  dnnl::primitive primitive;  // empty if oneDNN has none for the call
  Desc weights;               // of the operand that is packed
  Desc scratchpad;

  explicit operator bool() const { return static_cast<bool>(primitive); }
};

// The cached primitive of that key, or null. Thread-safe; a look-up takes about 50 ns.
std::shared_ptr<const Primitive> find_primitive(const Key& key);
void keep_primitive(const Key& key, std::shared_ptr<const Primitive> primitive);

// The cached primitive of that key; made by make(), which returns a Primitive, if there is none.
template <class Make>
std::shared_ptr<const Primitive> find_or_make(const Key& key, Make&& make) {
  std::shared_ptr<const Primitive> found = find_primitive(key);
  if (found == nullptr) {
    found = std::make_shared<const Primitive>(make());
    keep_primitive(key, found);
  }
  return found;
}

using Arg = std::pair<int, dnnl::memory>;
void execute(const Primitive& primitive, std::initializer_list<Arg> args);

// A description of the tensor's memory as `dims` with those strides.
Desc describe(const Shape& dims, DType dtype, const Shape& strides);

// The same, or one that is_zero() for strides that oneDNN refuses: it wants each to step over all
// that the smaller ones reach, as those of a slice with a step need not do. (Every other one of 5
// rows of 4 numbers: 3 rows at 8 are said to reach to 24, and the next matrix begins at 20.)
Desc describe_if_taken(const Shape& dims, DType dtype, const Shape& strides);

// What tells layouts apart.
std::uint64_t hash_of(const Desc& desc);

// A tensor's memory under a description of the same elements.
dnnl::memory memory_of(const Tensor& tensor, const Desc& desc);

// A weight in a primitive's layout; the memory lives as long as its owner.
struct Packed {
  dnnl::memory memory;
  Ref<RefCounted> owner;  // null if the memory is the weight's own
};

// A weight in the layout `wanted`. `dims` and `strides` say how the primitive sees the weight.
//
// A parameter's packed copy is kept beside it from the second use on, until the parameter changes.
// Training uses each form of a weight once between two updates, and if all forms were kept, copies
// of all weights would be alive at the end of the forward pass, when memory is scarcest. If the
// weight is the 16-bit copy of an f32 parameter that nobody has read yet, the packed form is made
// straight from the f32 numbers, and the plain 16-bit copy never exists. The next update then
// writes the form that was read (ops/update/packed_copy.h), which lasts until it is read, or as
// long as this one if it was read more than once.
Packed packed(const Tensor& weight, const Shape& dims, const Shape& strides, const Desc& wanted,
              ReadIn pass = ReadIn::kForward);

// Copies a weight's numbers out of a primitive's layout to a tensor; the reverse of packed().
void unpacked(const dnnl::memory& from, const Tensor& weight, const Shape& dims,
              const Shape& strides);

// True for parameters and shared copies of them.
bool is_worth_keeping(const Tensor& weight);

// True if the weight, a parameter or a shared copy of one, was read in this form before and has not
// changed since: it is then likely to be read again, and worth packing.
bool is_read_again(const Tensor& weight, const Shape& dims, const Shape& strides);
// Remembers that the weight was read in this form.
void note_read(const Tensor& weight, const Shape& dims, const Shape& strides);

// The tensor itself, or a copy of it in f32.
Tensor as_f32(const Tensor& tensor);

// Copies the elements of `from` over those of `to`, another layout or type of the same dims.
void reorder(const dnnl::memory& from, const dnnl::memory& to);

// A temporary block for a result in the layout `desc`.
struct Temporary {
  explicit Temporary(const Desc& desc);
  // In that memory, which is large enough.
  Temporary(const Desc& desc, Ref<Storage> place);
  Tensor block;
  dnnl::memory memory;
};

// Calls body(), turning oneDNN's exceptions into DeviceError with the shapes of the call.
[[noreturn]] void fail_call(const char* op, const KernelArgs& args, const dnnl::error& error);
template <class Body>
void guarded(const char* op, const KernelArgs& args, Body&& body) {
  try {
    body();
  } catch (const dnnl::error& error) {
    fail_call(op, args, error);
  }
}

// True if all inputs have elements and are of that kind; the reason if not.
Support supports_dtypes(const KernelArgs& args);
Support supports_widened(const KernelArgs& args);

// Runs `run` on f32 copies of the 16-bit inputs and rounds its results once.
void run_widened(const KernelArgs& args, void (*run)(const KernelArgs&));

}  // namespace mezzo::kernels::onednn

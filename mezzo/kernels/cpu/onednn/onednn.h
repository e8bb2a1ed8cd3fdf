// Shared by the kernels that call oneDNN: a cache of primitives, packed weights, execution.
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

// Attributes of every primitive: user-managed scratch memory, so that it is cached and counted, and
// no silent rounding of f32 operands.
dnnl::primitive_attr attributes();

// Everything that decides which primitive a call needs, as a short list of numbers.
class Key {
 public:
  // `family` distinguishes the users of the cache. The thread count is part of every key, because
  // primitives divide their work when they are created.
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

// A primitive and the layouts that it reads.
struct Primitive {
  dnnl::primitive primitive;  // empty if oneDNN has none for the call
  Desc weights;               // layout of the operand that is packed
  Desc scratchpad;

  explicit operator bool() const { return static_cast<bool>(primitive); }
};

// The cached primitive of that key, or null. Thread-safe; a look-up takes about 50 ns.
std::shared_ptr<const Primitive> find_primitive(const Key& key);
void keep_primitive(const Key& key, std::shared_ptr<const Primitive> primitive);

// The cached primitive of that key. If there is none, make() creates it; make() returns a
// Primitive.
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

// describe(), or a description that is_zero() for strides that oneDNN refuses. oneDNN wants each
// stride to step over all that the smaller ones reach, which those of a slice with a step need not
// do. (Example: every other one of 5 rows of 4 values. 3 rows at stride 8 are said to reach to 24,
// and the next matrix begins at 20.)
Desc describe_if_taken(const Shape& dims, DType dtype, const Shape& strides);

// A hash of all that distinguishes layouts.
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
// Training uses each form of a weight once between two updates. If all forms were kept, copies of
// all weights would exist at the end of the forward pass, when memory is scarcest.
//
// The weight may be the unfilled 16-bit copy of an f32 parameter. Then the packed form is made
// directly from the f32 values, and the plain copy is never filled. The next update writes the form
// that was read (ops/update/packed_copy.h). It lasts until it is read, or as long as this one if
// this one was read more than once.
Packed packed(const Tensor& weight, const Shape& dims, const Shape& strides, const Desc& wanted,
              ReadIn pass = ReadIn::kForward);

// Copies a weight's values from a primitive's layout to a tensor; the inverse of packed().
void unpacked(const dnnl::memory& from, const Tensor& weight, const Shape& dims,
              const Shape& strides);

// True for parameters and shared copies of them.
bool is_worth_keeping(const Tensor& weight);

// True if the weight, a parameter or a shared copy of one, was read in this form before and has not
// changed since. It will then probably be read again, and is worth packing.
bool is_read_again(const Tensor& weight, const Shape& dims, const Shape& strides);
// Records that the weight was read in this form.
void note_read(const Tensor& weight, const Shape& dims, const Shape& strides);

// The tensor itself if it is f32, else a copy in f32.
Tensor as_f32(const Tensor& tensor);

// Copies `from` to `to`, which has the same dims in another layout or type.
void reorder(const dnnl::memory& from, const dnnl::memory& to);

// A temporary block for a result in the layout `desc`.
struct Temporary {
  explicit Temporary(const Desc& desc);
  // Places the block in that storage, which is large enough.
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

// Yes if all inputs have elements and dtypes of that kind; otherwise the reason.
Support supports_dtypes(const KernelArgs& args);
Support supports_widened(const KernelArgs& args);

// Runs `run` on f32 copies of the 16-bit inputs and rounds its results once.
void run_widened(const KernelArgs& args, void (*run)(const KernelArgs&));

}  // namespace mezzo::kernels::onednn

// Kernels: plain functions over tensors that know nothing of gradients or autocast.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/dispatcher/op.h"
#include "mezzo/ops/fusion/result_rows.h"

namespace mezzo {

// One call: inputs (an undefined tensor for an absent one) and allocated outputs.
struct KernelArgs {
  Inputs inputs;
  std::span<Tensor> outputs;
  const Attrs& attributes;

  const Tensor& input(std::size_t i) const { return *inputs[i]; }
  bool has(std::size_t i) const { return i < inputs.size() && inputs[i]->defined(); }
  const Tensor& output(std::size_t i = 0) const { return outputs[i]; }
  template <class T>
  const T& attrs() const {
    return attributes.as<T>();
  }
};

// Whether a kernel takes a call, and if not, why.
struct Support {
  const char* reason = nullptr;  // null: supported

  static Support yes() { return {}; }
  static Support no(const char* reason) { return {reason}; }
  explicit operator bool() const { return reason == nullptr; }
};

struct Kernel {
  const char* name = nullptr;
  // Asked at run time, since it may depend on the CPU, the shapes and the memory layout.
  Support (*supports)(const KernelArgs&) = nullptr;
  void (*run)(const KernelArgs&) = nullptr;
  // Whether input `input` of a supported call may be a pending batch normalization
  // (ops/fusion/pending_norm.h), one with a residual if `adds`. The kernel then normalises as it
  // reads, and the input stays pending. For kernels without this function, such inputs are filled.
  bool (*normalises)(const KernelArgs&, std::size_t input, bool adds) = nullptr;
  // The result of a supported call, to be computed by rows as they are read; only then are the
  // inputs' elements read. Null for calls whose result is better computed at once.
  std::unique_ptr<ResultRows> (*rows)(const KernelArgs&) = nullptr;
};

// The kernels of one operation on one device, in order of preference.
struct KernelList {
  static constexpr std::size_t kMost = 12;
  std::array<Kernel, kMost> kernels{};

  std::span<const Kernel> entries() const {
    std::size_t count = 0;
    while (count < kMost && kernels[count].run != nullptr) ++count;
    return {kernels.data(), count};
  }
};

// A dense row-major array of doubles, as the reference kernels see tensors of every dtype.
struct RefTensor {
  double* data = nullptr;  // null for an absent input
  Shape shape;
  DType dtype = DType::kF64;  // of the original tensor

  std::int64_t numel() const { return shape.numel(); }
  std::span<double> values() const { return {data, static_cast<std::size_t>(numel())}; }
  double& operator[](std::int64_t i) const { return data[i]; }
};

// One call of a reference kernel: the plain double-precision loop that defines an operation. It is
// the oracle of the tests, computes f64, and is the last resort on every CPU.
struct RefArgs {
  std::vector<RefTensor> inputs;
  std::vector<RefTensor> outputs;
  const Attrs& attributes;

  bool has(std::size_t i) const { return i < inputs.size() && inputs[i].data != nullptr; }
  template <class T>
  const T& attrs() const {
    return attributes.as<T>();
  }
};
using RefKernel = void (*)(const RefArgs&);

// Runs a reference kernel on tensors of any dtype: widens the inputs to f64, and rounds the
// results.
void run_reference(RefKernel kernel, const KernelArgs& args);

}  // namespace mezzo

// Kernels of operations that compute each result from the inputs' elements at the same position.
#pragma once

#include "mezzo/kernels/cuda/map.cuh"

namespace mezzo::kernels::cuda {

template <class F>
void run_unary(const KernelArgs& args, const F& f) {
  const Launch launch(args.output());
  const Tensor x = dense(args.input(0), args.output().format());
  visit_vector_dtype(
      x.dtype(), [&]<class T>() { map(launch, f, x.numel(), out<T>(args.output()), in<T>(x)); });
}

template <class F>
void run_binary(const KernelArgs& args, const F& f) {
  const Launch launch(args.output());
  const Tensor a = dense(args.input(0), args.output().format());
  const Tensor b = dense(args.input(1), args.output().format());
  visit_vector_dtype(b.dtype(), [&]<class T>() {
    map(launch, f, b.numel(), out<T>(args.output()), in<T>(a), in<T>(b));
  });
}

// The kernel list of an operation with one kernel.
constexpr KernelList only_kernel(void (*run)(const KernelArgs&)) {
  return {{{{"cuda", float_dtypes_only, run}}}};
}
// The kernel list of a unary function without parameters.
template <class F>
constexpr KernelList unary_kernel() {
  return only_kernel([](const KernelArgs& args) { run_unary(args, F()); });
}
template <class F>
constexpr KernelList binary_kernel() {
  return only_kernel([](const KernelArgs& args) { run_binary(args, F()); });
}

}  // namespace mezzo::kernels::cuda

// Functions of two operands that broadcast, over any strides.
#pragma once

#include "mezzo/kernels/cuda/map.cuh"

namespace mezzo::kernels::cuda {

inline Loop<3> broadcast_loop(const KernelArgs& args) {
  const Tensor& out = args.output();
  return make_loop<3>(out.shape(), {out.strides(), broadcast_strides(args.input(0), out.shape()),
                                    broadcast_strides(args.input(1), out.shape())});
}

// A function of a tensor and one number, which is read once per thread and iteration.
template <class F, class T, bool kNumberFirst>
struct WithNumber {
  F f;
  const T* number;
  __device__ float operator()(float x) const {
    return kNumberFirst ? f(widen(*number), x) : f(x, widen(*number));
  }
};

// out = f(a, b) in f32, for inputs of T. Tensors of one layout, or a tensor and one number, are
// handled as dense memory; everything else by index.
template <class T, class Out, class F>
void run_broadcast(const KernelArgs& args, const F& f) {
  const Launch launch(args.output());
  const T* a = in<T>(args.input(0));
  const T* b = in<T>(args.input(1));
  Out* to = out<Out>(args.output());
  const Loop<3> loop = broadcast_loop(args);
  const std::int64_t n = loop.numel();
  const bool is_flat = loop.rank() == 1 && (loop.inner_stride(0) == 1 || n == 1);
  const auto steps = [&](std::int64_t of_a, std::int64_t of_b) {
    return is_flat && loop.inner_stride(1) == of_a && loop.inner_stride(2) == of_b;
  };
  if (steps(1, 1) || n == 1) {
    map(launch, f, n, to, a, b);
  } else if (steps(1, 0)) {
    map(launch, WithNumber<F, T, false>{f, b}, n, to, a);
  } else if (steps(0, 1)) {
    map(launch, WithNumber<F, T, true>{f, a}, n, to, b);
  } else {
    map_strided(launch, f, loop, to, a, b);
  }
}

}  // namespace mezzo::kernels::cuda

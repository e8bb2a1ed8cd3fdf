// Choosing between elements by masks, with broadcasting over any strides. Elements are moved as
// they are, whatever their dtype.
#include <cstring>

#include "mezzo/kernels/cuda/map.cuh"
#include "mezzo/ops/select_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

using Mask = std::uint8_t;  // bool's storage

template <class T>
struct Choose {
  static constexpr bool kIsRaw = true;
  __device__ T operator()(Mask condition, T a, T b) const { return condition != 0 ? a : b; }
};
template <class T>
struct Fill {
  static constexpr bool kIsRaw = true;
  T number;
  bool where;
  __device__ T operator()(T x, Mask mask) const { return (mask != 0) == where ? number : x; }
};
struct LargerGrad {
  __device__ float operator()(float grad, float a, float b) const {
    return a == b ? grad * 0.5F : a < b ? 0.0F : grad;
  }
};

// Calls visit.operator()<T>() for an element type of that many bytes.
template <class Visit>
void visit_size(std::size_t bytes, const Visit& visit) {
  switch (bytes) {
    case 1: return visit.template operator()<std::uint8_t>();
    case 2: return visit.template operator()<std::uint16_t>();
    case 4: return visit.template operator()<std::uint32_t>();
    default: return visit.template operator()<std::uint64_t>();
  }
}

// Operand 0 is the output.
Loop<4> loop_of_three(const KernelArgs& args) {
  const Tensor& out = args.output();
  const auto strides = [&](std::size_t i) { return broadcast_strides(args.input(i), out.shape()); };
  return make_loop<4>(out.shape(), {out.strides(), strides(0), strides(1), strides(2)});
}

void run_where(const KernelArgs& args) {
  const Launch launch(args.output());
  visit_size(size_of(args.output().dtype()), [&]<class T>() {
    map_strided(launch, Choose<T>(), loop_of_three(args), out<T>(args.output()),
                in<Mask>(args.input(0)), in<T>(args.input(1)), in<T>(args.input(2)));
  });
}

void run_masked_fill(const KernelArgs& args) {
  const Tensor& filled = args.output();
  const auto& attrs = args.attrs<MaskedFillAttrs>();
  const Launch launch(filled);
  const Shape& shape = filled.shape();
  const auto loop = make_loop<3>(shape, {filled.strides(), broadcast_strides(args.input(0), shape),
                                         broadcast_strides(args.input(1), shape)});
  visit_size(size_of(filled.dtype()), [&]<class T>() {
    T number;
    std::memcpy(&number, as_element(attrs.number, args.input(0).dtype(), filled.dtype()).data(),
                sizeof(T));
    map_strided(launch, Fill<T>{number, attrs.where}, loop, out<T>(filled), in<T>(args.input(0)),
                in<Mask>(args.input(1)));
  });
}

void run_maximum_grad(const KernelArgs& args) {
  const Launch launch(args.output());
  const Loop<4> loop = loop_of_three(args);
  bool is_flat = loop.rank() == 1;
  for (std::size_t k = 0; k < 4; ++k) is_flat = is_flat && loop.inner_stride(k) == 1;
  visit_vector_dtype(args.output().dtype(), [&]<class T>() {
    T* to = out<T>(args.output());
    const T* grad = in<T>(args.input(0));
    const T* a = in<T>(args.input(1));
    const T* b = in<T>(args.input(2));
    if (is_flat) return map(launch, LargerGrad(), loop.numel(), to, grad, a, b);
    map_strided(launch, LargerGrad(), loop, to, grad, a, b);
  });
}

}  // namespace

extern const KernelList where{{{{"cuda", nullptr, run_where}}}};
extern const KernelList masked_fill{{{{"cuda", nullptr, run_masked_fill}}}};
extern const KernelList maximum_grad{{{{"cuda", float_dtypes_only, run_maximum_grad}}}};

}  // namespace mezzo::kernels::cuda

// Comparisons with broadcasting over any strides: 16-bit values as f32, integers as they are.
#include "mezzo/kernels/cpu/loops/integers.h"
#include "mezzo/kernels/cuda/broadcast.cuh"
#include "mezzo/ops/compare_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

using Answer = std::uint8_t;  // bool's storage, 0 or 1

struct Compare {
  Relation relation;
  __device__ float operator()(float a, float b) const {
    return holds(relation, a, b) ? 1.0F : 0.0F;
  }
};
struct CompareToNumber {
  Relation relation;
  float number;
  __device__ float operator()(float x) const { return holds(relation, x, number) ? 1.0F : 0.0F; }
};
struct CompareIntegers {
  static constexpr bool kIsRaw = true;
  Relation relation;
  template <class T>
  __device__ Answer operator()(T a, T b) const {
    return holds(relation, a, b) ? 1 : 0;
  }
};
struct CompareIntegersToNumber {
  static constexpr bool kIsRaw = true;
  Relation relation;
  double number;
  template <class T>
  __device__ Answer operator()(T x) const {
    return holds(relation, static_cast<double>(x), number) ? 1 : 0;
  }
};

void compare_floats(const KernelArgs& args) {
  const Compare f{args.attrs<CompareAttrs>().relation};
  visit_vector_dtype(args.input(0).dtype(), [&]<class T>() { run_broadcast<T, Answer>(args, f); });
}

void compare_floats_to_number(const KernelArgs& args) {
  const auto& attrs = args.attrs<CompareNumberAttrs>();
  const CompareToNumber f{attrs.relation, static_cast<float>(attrs.number)};
  const Launch launch(args.output());
  const Tensor x = dense(args.input(0), args.output().format());
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    map(launch, f, x.numel(), out<Answer>(args.output()), in<T>(x));
  });
}

// Bools too, which are bytes.
void compare_integers(const KernelArgs& args) {
  const Launch launch(args.output());
  visit_integer_dtype(args.input(0).dtype(), [&]<class T>() {
    map_strided(launch, CompareIntegers{args.attrs<CompareAttrs>().relation}, broadcast_loop(args),
                out<Answer>(args.output()), in<T>(args.input(0)), in<T>(args.input(1)));
  });
}

void compare_integers_to_number(const KernelArgs& args) {
  const auto& attrs = args.attrs<CompareNumberAttrs>();
  const Tensor& x = args.input(0);
  const Launch launch(x);
  const auto loop = make_loop<2>(x.shape(), {args.output().strides(), x.strides()});
  visit_integer_dtype(x.dtype(), [&]<class T>() {
    map_strided(launch, CompareIntegersToNumber{attrs.relation, attrs.number}, loop,
                out<Answer>(args.output()), in<T>(x));
  });
}

Support no_floats(const KernelArgs& args) {
  return is_floating(args.input(0).dtype()) ? Support::no("only integers and bools are compared")
                                            : Support::yes();
}

}  // namespace

extern const KernelList compare{
    {{{"cuda", float_dtypes_only, compare_floats}, {"cuda_integer", no_floats, compare_integers}}}};
extern const KernelList compare_number{{{{"cuda", float_dtypes_only, compare_floats_to_number},
                                         {"cuda_integer", no_floats, compare_integers_to_number}}}};

}  // namespace mezzo::kernels::cuda

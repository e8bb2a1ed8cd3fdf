// The 2-norm over any axes.
#include "mezzo/kernels/cuda/reduce.cuh"

namespace mezzo::kernels::cuda {
namespace {

template <class T>
struct Squares {
  const T* x;
  Results<T> results;
  __device__ float start() const { return 0; }
  __device__ float combine(float a, float b) const { return a + b; }
  __device__ float term(std::int64_t at, std::int64_t, std::int64_t) const {
    const float value = widen(x[at]);
    return value * value;
  }
  __device__ void finish(float value, std::int64_t at) const { results.put(at, sqrtf(value)); }
};

void run_norm(const KernelArgs& args) {
  const Launch launch(args.output());
  const Fold reduction = reduction_of(args);
  visit_vector_dtype(args.input(0).dtype(), [&]<class T>() {
    reduce(launch, Squares<T>{in<T>(args.input(0)), Results<T>(args.output())}, reduction);
  });
}

}  // namespace

extern const KernelList norm{{{{"cuda", float_dtypes_only, run_norm}}}};

}  // namespace mezzo::kernels::cuda

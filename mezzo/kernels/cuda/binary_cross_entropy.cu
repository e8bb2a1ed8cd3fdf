#include "mezzo/kernels/cuda/functions.cuh"
#include "mezzo/kernels/cuda/map.cuh"

namespace mezzo::kernels::cuda {
namespace {

struct OfProbability {
  __device__ float operator()(float p, float t) const {
    return -(t * functions::bounded_log(p) + (1.0F - t) * functions::bounded_log_of_rest(p));
  }
};
struct OfLogit {
  __device__ float operator()(float x, float t) const { return functions::logit_loss(x, t); }
};

// Losses are f32, whatever the inputs: they are summed next.
template <class F>
void losses(const KernelArgs& args) {
  const Launch launch(args.output());
  const Format format = args.output().format();
  const Tensor x = dense(args.input(0), format);
  const Tensor target = dense(args.input(1), format);
  visit_vector_dtype(x.dtype(), [&]<class X>() {
    visit_vector_dtype(target.dtype(), [&]<class Target>() {
      map(launch, F(), x.numel(), out<float>(args.output()), in<X>(x), in<Target>(target));
    });
  });
}

}  // namespace

extern const KernelList binary_cross_entropy{
    {{{"cuda", float_dtypes_only, losses<OfProbability>}}}};
extern const KernelList binary_cross_entropy_with_logits{
    {{{"cuda", float_dtypes_only, losses<OfLogit>}}}};

}  // namespace mezzo::kernels::cuda

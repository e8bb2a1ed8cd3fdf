// Convolutions and their gradients: by cuDNN, and where it has no engine, as plain loops.
#include "mezzo/core/derived.h"
#include "mezzo/kernels/cuda/bias.cuh"
#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/direct_conv.cuh"
#include "mezzo/kernels/cuda/recorder.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/tf32.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr Format kImages = Format::kChannelsLast;
constexpr std::uint64_t kPackedWeight = 0x6375646177;  // DerivedKey::kind of channels-last copies

Tensor pack(const Tensor& weight) {
  const Tensor packed = empty(weight.shape(), weight.dtype(), kImages, weight.device());
  const Tensor source = unfilled_source(weight);
  convert_into(source.defined() ? source : weight, packed);
  return packed;
}

// The weight with its channels innermost. Made once per change of the weight, and straight from the
// f32 parameter if the weight is its 16-bit copy that nobody has looked at yet.
Tensor packed_weight(const Tensor& weight) {
  if (weight.is_dense(kImages)) return weight;
  if (is_recording()) return pack(weight);  // of every launch: the weight will have changed
  DerivedCopies& derived = weight.storage()->derived();
  const DerivedKey key = derived_key(weight, kPackedWeight, 0);
  const Ref<RefCounted> found = derived.find(key, weight.version());
  if (found) {
    const Ref<Storage> storage(static_cast<Storage*>(found.get()));
    return Tensor(make_ref<TensorImpl>(storage, 0, weight.shape(),
                                       strides_for(weight.shape(), kImages), weight.dtype()));
  }
  const Tensor packed = pack(weight);
  if (weight.is_dense())
    derived.put(key, weight.version(), Ref<RefCounted>(packed.storage().get()));
  return packed;
}

std::array<std::int64_t, 4> sizes_of(const Tensor& tensor) {
  return {tensor.size(0), tensor.size(1), tensor.size(2), tensor.size(3)};
}

// One call: its tensors in channels-last memory, and where its result goes.
struct Call {
  ConvProblem problem;
  Tensor x, weight, y;
  Tensor bias;  // of the forward pass

  const Tensor& result() const {
    switch (problem.pass) {
      case ConvPass::kForward: return y;
      case ConvPass::kGradInput: return x;
      case ConvPass::kGradWeight: break;
    }
    return weight;
  }
  ConvPointers pointers() const { return {x.address(), weight.address(), y.address()}; }
};

// The output if the result can be written to it as it comes, else a tensor to convert from.
Tensor room_for(const Tensor& output, bool has_bias) {
  // With a bias the sums stay f32 until it has been added: rounded twice, results would be off by
  // more than half a unit in the last place.
  const DType dtype = has_bias ? DType::kF32 : output.dtype();
  if (dtype == output.dtype() && output.is_dense(kImages)) return output;
  return empty(output.shape(), dtype, kImages, output.device());
}

template <class T>
T operand_of(const T& tensor, bool wide) {
  return wide ? dense_f32(tensor, kImages) : dense(tensor, kImages);
}

void describe(Call& call, const Conv2dAttrs& attrs, DType dtype) {
  ConvProblem& p = call.problem;
  p.attrs = attrs;
  p.dtype = dtype;
  p.result = call.result().dtype();
  p.x = sizes_of(call.x);
  p.weight = sizes_of(call.weight);
  p.y = sizes_of(call.y);
  p.tf32 = is_tf32_allowed();
  std::uintptr_t bits = 16;
  for (const Tensor* tensor : {&call.x, &call.weight, &call.y}) {
    bits |= reinterpret_cast<std::uintptr_t>(tensor->address());
  }
  p.alignment = static_cast<int>(bits & (0 - bits));
}

// `wide`: with 16-bit operands widened to f32, exactly, for engines that take no mixture.
template <ConvPass kPass>
Call call_of(const KernelArgs& args, bool wide) {
  Call call;
  call.problem.pass = kPass;
  const Tensor& output = args.output();
  if constexpr (kPass == ConvPass::kForward) {
    if (args.has(2)) call.bias = dense(args.input(2), Format::kContiguous);
    call.x = operand_of(args.input(0), wide);
    call.weight = wide ? operand_of(args.input(1), wide) : packed_weight(args.input(1));
    call.y = room_for(output, call.bias.defined());
    describe(call, args.attrs<Conv2dAttrs>(), call.x.dtype());
  } else if constexpr (kPass == ConvPass::kGradInput) {
    call.y = operand_of(args.input(0), wide);
    call.weight = wide ? operand_of(args.input(1), wide) : packed_weight(args.input(1));
    call.x = room_for(output, false);
    describe(call, args.attrs<Conv2dGradAttrs>().conv, call.y.dtype());
  } else {
    call.y = operand_of(args.input(0), wide);
    call.x = operand_of(args.input(1), wide);
    call.weight = room_for(output, false);
    describe(call, args.attrs<Conv2dGradAttrs>().conv, call.y.dtype());
  }
  if (wide && call.problem.result != DType::kF32) {
    // The widened engines write f32; the result is rounded once, afterwards.
    const Tensor sums = empty(output.shape(), DType::kF32, kImages, output.device());
    (kPass == ConvPass::kForward     ? call.y
     : kPass == ConvPass::kGradInput ? call.x
                                     : call.weight) = sums;
    call.problem.result = DType::kF32;
  }
  return call;
}

void finish(const Launch& launch, const Call& call, const Tensor& output) {
  const Tensor& result = call.result();
  if (call.bias.defined()) {
    add_bias(launch, result, call.bias, output);  // both are channels-last
  } else if (result.address() != output.address()) {
    convert_into(result, output);
  }
  output.bump_version();
}

void compute_directly(const Launch& launch, const Call& call) {
  const ConvProblem& p = call.problem;
  visit_vector_dtype(p.dtype, [&]<class T>() {
    visit_vector_dtype(p.result, [&]<class Out>() {
      if constexpr (std::is_same_v<T, Out> || std::is_same_v<Out, float>) {
        run_direct<T, Out>(launch, p, call.pointers());
      }
    });
  });
}

template <ConvPass kPass, bool kWide>
void run_cudnn(const KernelArgs& args) {
  const Launch launch(args.output());
  const Call call = call_of<kPass>(args, kWide);
  ConvPlans* plans = find_plans(launch.context(), call.problem);
  if (plans == nullptr || !run_convolution(launch.context(), *plans, call.pointers())) {
    compute_directly(launch, call);
  }
  finish(launch, call, args.output());
}

template <ConvPass kPass>
void run_direct_kernel(const KernelArgs& args) {
  const Launch launch(args.output());
  const Call call = call_of<kPass>(args, false);
  compute_directly(launch, call);
  finish(launch, call, args.output());
}

bool is_empty(const KernelArgs& args) {
  return args.input(0).numel() == 0 || args.input(1).numel() == 0;
}

template <ConvPass kPass, bool kWide>
Support supports(const KernelArgs& args) {
  if (const Support floats = float_dtypes_only(args); !floats) return floats;
  if (is_empty(args)) return Support::no("there are no images");
  if (kWide && args.input(0).dtype() == DType::kF32) return Support::no("the operands are f32");
  const Launch launch(args.output());
  return find_plans(launch.context(), call_of<kPass>(args, kWide).problem) != nullptr
             ? Support::yes()
             : Support::no("cuDNN has no engine with f32 sums for this problem");
}

template <ConvPass kPass>
constexpr KernelList convolutions() {
  return {{{{"cuda_cudnn", supports<kPass, false>, run_cudnn<kPass, false>},
            {"cuda_cudnn_wide", supports<kPass, true>, run_cudnn<kPass, true>},
            {"cuda_direct", float_dtypes_only, run_direct_kernel<kPass>}}}};
}

}  // namespace

extern const KernelList conv2d = convolutions<ConvPass::kForward>();
extern const KernelList conv2d_grad_input = convolutions<ConvPass::kGradInput>();
extern const KernelList conv2d_grad_weight = convolutions<ConvPass::kGradWeight>();

}  // namespace mezzo::kernels::cuda

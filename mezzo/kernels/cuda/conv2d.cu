// Convolutions and their gradients: of few channels by mezzo's own kernels, otherwise by cuDNN, and
// by plain loops where cuDNN has no engine.
#include "mezzo/core/derived.h"
#include "mezzo/core/log.h"
#include "mezzo/kernels/cuda/bias.cuh"
#include "mezzo/kernels/cuda/convolution_plan.h"
#include "mezzo/kernels/cuda/cublas_plan.h"
#include "mezzo/kernels/cuda/direct_conv.cuh"
#include "mezzo/kernels/cuda/few_channels.h"
#include "mezzo/kernels/cuda/pad_channels.cuh"
#include "mezzo/kernels/cuda/recorder.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/slice_attrs.h"
#include "mezzo/ops/tf32.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr Format kImages = Format::kChannelsLast;
constexpr std::uint64_t kPackedWeight = 0x6375646177;  // DerivedKey::kind of channels-last copies

Tensor pack(const Tensor& weight) {
  const Tensor packed = empty(weight.shape(), weight.dtype(), kImages, weight.device());
  const Tensor source = pending_source(weight);
  convert_into(source.defined() ? source : weight, packed);
  return packed;
}

// The weight with its channels innermost. It is made once per change of the weight. If the weight
// is an unfilled 16-bit copy, it is made directly from the f32 parameter.
Tensor packed_weight(const Tensor& weight) {
  if (weight.is_dense(kImages)) return weight;
  if (is_recording()) return pack(weight);  // for every launch, since the weight will have changed
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

using Sizes = std::array<std::int64_t, 4>;

Sizes sizes_of(const Tensor& tensor) {
  return {tensor.size(0), tensor.size(1), tensor.size(2), tensor.size(3)};
}

// The form in which operands are passed to an engine.
enum class Operands : std::uint8_t {
  kPlain,
  kPadded,  // 16-bit images and gradients, padded to the channels that weight gradients need
  kWide,    // 16-bit operands widened to f32, exactly, for engines that take no mixed dtypes
};

// The tensors of a call, whichever of the three is the result.
struct Roles {
  const Tensor& x;
  const Tensor& weight;
  const Tensor& y;
};

template <ConvPass kPass>
Roles roles_of(const KernelArgs& args) {
  if constexpr (kPass == ConvPass::kForward) {
    return {args.input(0), args.input(1), args.output()};
  } else if constexpr (kPass == ConvPass::kGradInput) {
    return {args.output(), args.input(1), args.input(0)};
  } else {
    return {args.input(1), args.output(), args.input(0)};
  }
}

template <ConvPass kPass>
const Conv2dAttrs& attrs_of(const KernelArgs& args) {
  if constexpr (kPass == ConvPass::kForward) {
    return args.attrs<Conv2dAttrs>();
  } else {
    return args.attrs<Conv2dGradAttrs>().conv;
  }
}

// The alignment of all pointers: of the tensors that are used in place, which have that dtype and
// are channels-last. The others are copied to aligned memory.
int alignment_of(const Roles& roles, const ConvProblem& p) {
  const DType result = p.result;
  std::uintptr_t bits = 16;
  const auto add = [&](const Tensor& tensor, const Sizes& sizes, ConvPass if_result_of) {
    const DType wanted = p.pass == if_result_of ? result : p.dtype;
    const bool is_copied = !tensor.is_dense(kImages) || sizes_of(tensor) != sizes;
    if (tensor.dtype() != wanted || is_copied) return;
    bits |= reinterpret_cast<std::uintptr_t>(tensor.address());
  };
  add(roles.x, p.x, ConvPass::kGradInput);
  add(roles.weight, p.weight, ConvPass::kGradWeight);
  add(roles.y, p.y, ConvPass::kForward);
  return static_cast<int>(bits & (0 - bits));
}

// Whether zero channels are added to 16-bit operands for the weight gradient. For an odd number of
// channels cuDNN 9.19 has no engine. For an even one that is not a multiple of eight, its
// runtime-compiled engines give wrong sums without refusing. (Observed on an H100 with rows of four
// channels and of two.)
bool is_padded(const ConvProblem& p) { return is_lower(p.dtype) && p.attrs.groups == 1; }

std::int64_t padded_channels(std::int64_t channels) {
  return (channels + kChannelPack - 1) / kChannelPack * kChannelPack;
}

template <ConvPass kPass>
ConvProblem problem_of(const KernelArgs& args, Operands operands) {
  const bool wide = operands == Operands::kWide;
  const Roles roles = roles_of<kPass>(args);
  ConvProblem p;
  p.pass = kPass;
  p.attrs = attrs_of<kPass>(args);
  p.dtype = wide ? DType::kF32 : args.input(0).dtype();
  // With a bias, the sums stay f32 until it has been added: rounding twice would be off by more
  // than half a unit in the last place. The widened engines write f32, too.
  const bool has_bias = kPass == ConvPass::kForward && args.has(2);
  p.result = has_bias || wide ? DType::kF32 : args.output().dtype();
  p.x = sizes_of(roles.x);
  p.weight = sizes_of(roles.weight);
  p.y = sizes_of(roles.y);
  if (kPass == ConvPass::kGradWeight && operands == Operands::kPadded && is_padded(p)) {
    p.x[1] = p.weight[1] = padded_channels(p.x[1]);
    p.y[1] = p.weight[0] = padded_channels(p.y[1]);
  }
  // TF32 has the 11 significant bits of f16, more than bf16's, and f32's range. Widened 16-bit
  // values are exact in it, at many times the speed. Others are rounded, if the user allows that
  // and the call does not ask for direct sums.
  const bool are_exact = is_lower(args.input(0).dtype()) && is_lower(args.input(1).dtype());
  p.tf32 = p.dtype == DType::kF32 && (are_exact || (is_tf32_allowed() && !p.attrs.exact));
  p.alignment = alignment_of(roles, p);
  return p;
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

template <ConvPass kPass>
Call call_of(const Launch& launch, const KernelArgs& args, Operands operands) {
  const bool wide = operands == Operands::kWide;
  const Roles roles = roles_of<kPass>(args);
  Call call{problem_of<kPass>(args, operands), {}, {}, {}, {}};
  const auto operand = [&](const Tensor& tensor) {
    return wide ? dense_f32(tensor, kImages) : dense(tensor, kImages);
  };
  // The output if the result can be written to it directly, else a tensor to convert from.
  const auto room = [&](const Tensor& output, const Sizes& sizes) {
    const DType dtype = call.problem.result;
    const bool fits = dtype == output.dtype() && sizes_of(output) == sizes;
    if (fits && output.is_dense(kImages)) return output;
    return empty({sizes[0], sizes[1], sizes[2], sizes[3]}, dtype, kImages, output.device());
  };
  call.x = kPass == ConvPass::kGradInput ? room(roles.x, call.problem.x) : operand(roles.x);
  call.y = kPass == ConvPass::kForward ? room(roles.y, call.problem.y) : operand(roles.y);
  if (kPass == ConvPass::kGradWeight) {
    call.weight = room(roles.weight, call.problem.weight);
    const auto pad = [&](Tensor& tensor, std::int64_t channels) {
      if (channels != tensor.size(1)) tensor = with_channels(launch, tensor, channels);
    };
    pad(call.x, call.problem.x[1]);
    pad(call.y, call.problem.y[1]);
  } else {
    call.weight = wide ? operand(roles.weight) : packed_weight(roles.weight);
  }
  if (kPass == ConvPass::kForward && args.has(2)) {
    call.bias = dense(args.input(2), Format::kContiguous);
  }
  return call;
}

void finish(const Launch& launch, const Call& call, const Tensor& output) {
  const Tensor& result = call.result();
  if (call.bias.defined()) {
    add_bias(launch, result, call.bias, output);  // both are channels-last
  } else if (result.address() != output.address()) {
    // Drops the zero channels.
    const Tensor filters = slice_of(result, {.axis = 0, .start = 0, .count = output.size(0)});
    convert_into(slice_of(filters, {.axis = 1, .start = 0, .count = output.size(1)}), output);
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

// False if no cuDNN engine can run it.
template <ConvPass kPass>
bool run_by_cudnn(const Launch& launch, const KernelArgs& args, Operands operands) {
  ConvPlans* plans = find_plans(launch.context(), problem_of<kPass>(args, operands));
  if (plans == nullptr) return false;
  const Call call = call_of<kPass>(launch, args, operands);
  if (!run_convolution(launch.context(), *plans, call.pointers())) return false;
  finish(launch, call, args.output());
  return true;
}

template <ConvPass kPass>
void run_direct_kernel(const KernelArgs& args) {
  const Launch launch(args.output());
  const Call call = call_of<kPass>(launch, args, Operands::kPlain);
  compute_directly(launch, call);
  finish(launch, call, args.output());
}

// Engines may refuse to run a problem that they have accepted before.
template <ConvPass kPass, Operands kOperands>
void run_cudnn(const KernelArgs& args) {
  const Launch launch(args.output());
  if (run_by_cudnn<kPass>(launch, args, kOperands)) return;
  const bool may_widen = kOperands != Operands::kWide && args.input(0).dtype() != DType::kF32 &&
                         !is_kernel_disabled("cuda_cudnn_wide");
  if (may_widen && run_by_cudnn<kPass>(launch, args, Operands::kWide)) return;
  logging::write(logging::Topic::kDispatch, text_of(problem_of<kPass>(args, kOperands)),
                 ": no cuDNN engine can run it, computed by cuda_direct");
  run_direct_kernel<kPass>(args);
}

bool is_empty(const KernelArgs& args) {
  return args.input(0).numel() == 0 || args.input(1).numel() == 0;
}

template <ConvPass kPass, Operands kOperands>
Support supports(const KernelArgs& args) {
  if (const Support floats = float_dtypes_only(args); !floats) return floats;
  if (is_empty(args)) return Support::no("an input has no elements");
  if (kOperands == Operands::kWide && args.input(0).dtype() == DType::kF32) {
    return Support::no("the operands are f32");
  }
  const Launch launch(args.output());
  return find_plans(launch.context(), problem_of<kPass>(args, kOperands)) != nullptr
             ? Support::yes()
             : Support::no("cuDNN has no engine with f32 sums for this problem");
}

template <ConvPass kPass>
Support supports_few_channels(const KernelArgs& args) {
  if (is_empty(args)) return Support::no("an input has no elements");
  const ConvProblem p = problem_of<kPass>(args, Operands::kPlain);
  if (args.input(1).dtype() != p.dtype ||
      (kPass == ConvPass::kForward && args.output().dtype() != p.dtype)) {
    return Support::no("the dtypes differ");
  }
  return takes_few_channels(p);
}

// The output if it is channels-last, else a tensor to convert from.
Tensor result_for(const Tensor& output) {
  if (output.is_dense(kImages)) return output;
  return empty(output.shape(), output.dtype(), kImages, output.device());
}

void hand_over(const Tensor& result, const Tensor& output) {
  if (result.address() != output.address()) convert_into(result, output);
  output.bump_version();
}

template <ConvPass kPass>
void run_few_channels(const KernelArgs& args) {
  const Launch launch(args.output());
  const Roles roles = roles_of<kPass>(args);
  const Tensor result = result_for(args.output());
  const Tensor x = dense(roles.x, kImages);
  const ConvProblem problem = problem_of<kPass>(args, Operands::kPlain);
  if constexpr (kPass == ConvPass::kForward) {
    const Tensor weight = packed_weight(roles.weight);
    const Tensor bias = args.has(2) ? dense_f32(args.input(2)) : Tensor();
    convolve_few_channels(launch, problem, {x.address(), weight.address(), result.address()},
                          in_or_null<float>(bias));
  } else {
    const Tensor y = dense(roles.y, kImages);
    sum_few_channels(launch, problem, {x.address(), result.address(), y.address()});
  }
  hand_over(result, args.output());
}

// The weight gradient of a 1x1 kernel at stride 1, as a product of two matrices with a row per
// pixel: grad^T x. For f32 results, cuDNN only has engines that take a second to compile, and are
// slower.
Product product_of_pixels(const KernelArgs& args) {
  const auto p = problem_of<ConvPass::kGradWeight>(args, Operands::kPlain);
  Product product;
  product.m = p.weight[0];
  product.n = p.weight[1];
  product.k = p.y[0] * p.y[2] * p.y[3];
  product.transpose_a = true;
  product.dtype = p.dtype;
  product.result = p.result;
  product.alignment = p.alignment;
  return product;
}

Support supports_product(const KernelArgs& args) {
  if (const Support floats = float_dtypes_only(args); !floats) return floats;
  if (is_empty(args)) return Support::no("an input has no elements");
  const auto& attrs = args.attrs<Conv2dGradAttrs>();
  if (!attrs.conv.is_pointwise(attrs.size) || attrs.conv.stride != Size2d(1)) {
    return Support::no("only for plain 1x1 kernels");
  }
  if (!is_lower(args.input(0).dtype()) || args.input(0).dtype() != args.input(1).dtype()) {
    return Support::no("cuDNN has engines for f32");
  }
  const Launch launch(args.output());
  return find_plan(launch.context(), product_of_pixels(args)) != nullptr
             ? Support::yes()
             : Support::no("cuBLASLt has no algorithm for it");
}

void run_product(const KernelArgs& args) {
  const Launch launch(args.output());
  const CublasPlan& plan =
      plan_again(launch.context(), product_of_pixels(args), "conv2d_grad_weight");
  const Tensor grad = dense(args.input(0), kImages);
  const Tensor x = dense(args.input(1), kImages);
  const Tensor result = result_for(args.output());
  run_plan(launch.context(), plan,
           {.a = grad.address(), .b = x.address(), .out = result.address()});
  hand_over(result, args.output());
}

template <ConvPass kPass>
constexpr KernelList convolutions() {
  constexpr Operands kPadded = Operands::kPadded;
  constexpr Operands kWide = Operands::kWide;
  KernelList list;
  std::size_t count = 0;
  if constexpr (kPass != ConvPass::kGradInput) {
    list.kernels[count++] = {"cuda_few_channels", supports_few_channels<kPass>,
                             run_few_channels<kPass>};
  }
  if constexpr (kPass == ConvPass::kGradWeight) {
    list.kernels[count++] = {"cuda_cublaslt", supports_product, run_product};
  }
  list.kernels[count++] = {"cuda_cudnn", supports<kPass, kPadded>, run_cudnn<kPass, kPadded>};
  list.kernels[count++] = {"cuda_cudnn_wide", supports<kPass, kWide>, run_cudnn<kPass, kWide>};
  list.kernels[count++] = {"cuda_direct", float_dtypes_only, run_direct_kernel<kPass>};
  return list;
}

}  // namespace

extern const KernelList conv2d = convolutions<ConvPass::kForward>();
extern const KernelList conv2d_grad_input = convolutions<ConvPass::kGradInput>();
extern const KernelList conv2d_grad_weight = convolutions<ConvPass::kGradWeight>();

}  // namespace mezzo::kernels::cuda

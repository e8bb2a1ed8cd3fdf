#include <algorithm>
#include <cstddef>
#include <cstring>

#include "mezzo/core/cpu.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/grad_weight.h"
#include "mezzo/kernels/cpu/grad_weight_planar.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/onednn.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using onednn::Desc;
using onednn::Primitive;

enum class Pass : std::uint8_t { kForward, kGradInput, kGradWeight };

// One convolution, whichever of its three tensors is the result.
struct Problem {
  Pass pass = Pass::kForward;
  Shape x;       // [n, c, h, w]
  Shape weight;  // [o, c / groups, kh, kw]
  Shape y;       // [n, o, oh, ow]
  Conv2dAttrs attrs;
  DType dtype = DType::kF32;   // of the operands
  DType result = DType::kF32;  // of the result
  bool has_bias = false;

  onednn::Key key() const {
    onednn::Key key(0x636f6e76);
    key.add(static_cast<std::int64_t>(pass) << 24 | static_cast<std::int64_t>(dtype) << 16 |
            static_cast<std::int64_t>(result) << 8 | static_cast<std::int64_t>(has_bias));
    for (const Shape* shape : {&x, &weight, &y}) {
      for (const std::int64_t size : *shape) key.add(size);
    }
    const Sides& padding = attrs.padding;
    for (const std::int64_t number :
         {attrs.stride.h, attrs.stride.w, attrs.dilation.h, attrs.dilation.w, padding.top,
          padding.bottom, padding.left, padding.right, attrs.groups}) {
      key.add(number);
    }
    return key;
  }

  // oneDNN sees the weight of a grouped convolution as [g, o / g, c / g, kh, kw].
  Shape weight_dims() const {
    if (attrs.groups == 1) return weight;
    return {attrs.groups, weight[0] / attrs.groups, weight[1], weight[2], weight[3]};
  }
  Shape weight_strides(const Tensor& tensor) const {
    const Strides& s = tensor.strides();
    if (attrs.groups == 1) return s;
    return {weight[0] / attrs.groups * s[0], s[0], s[1], s[2], s[3]};
  }
};

Problem forward_problem(const KernelArgs& args) {
  return {Pass::kForward,
          args.input(0).shape(),
          args.input(1).shape(),
          args.output().shape(),
          args.attrs<Conv2dAttrs>(),
          args.input(0).dtype(),
          args.output().dtype(),
          args.has(2)};
}

Problem gradient_problem(const KernelArgs& args, Pass pass) {
  const bool for_input = pass == Pass::kGradInput;
  return {pass,
          (for_input ? args.output() : args.input(1)).shape(),
          (for_input ? args.input(1) : args.output()).shape(),
          args.input(0).shape(),
          args.attrs<Conv2dGradAttrs>().conv,
          args.input(0).dtype(),
          args.output().dtype()};
}

Desc image(const Shape& shape, DType dtype) {
  // Channels-last: as fast as oneDNN's blocked layouts on AVX-512, and every other kernel reads it.
  return {memory::dims(shape.begin(), shape.end()), onednn::type_of(dtype),
          memory::format_tag::nhwc};
}

Desc any_layout(const Shape& shape, DType dtype) {
  return {memory::dims(shape.begin(), shape.end()), onednn::type_of(dtype),
          memory::format_tag::any};
}

struct Descriptions {
  Desc x, weight, y, bias;
  memory::dims stride, dilation, before, after;
  // Direct, never Winograd: its transforms lose several bits.
  algorithm method = algorithm::convolution_direct;
};

Descriptions describe(const Problem& p) {
  const auto result_of = [&](Pass pass) { return p.pass == pass ? p.result : p.dtype; };
  const Sides& padding = p.attrs.padding;
  // oneDNN counts the pixels between those of the kernel, and wants the padding that makes the
  // output size come out without a remainder.
  const Size2d span = p.attrs.window({p.weight[2], p.weight[3]}).span();
  const std::int64_t bottom = (p.y[2] - 1) * p.attrs.stride.h + span.h - p.x[2] - padding.top;
  const std::int64_t right = (p.y[3] - 1) * p.attrs.stride.w + span.w - p.x[3] - padding.left;
  Descriptions d;
  d.x = image(p.x, result_of(Pass::kGradInput));
  d.weight = any_layout(p.weight_dims(), result_of(Pass::kGradWeight));
  d.y = image(p.y, result_of(Pass::kForward));
  if (p.has_bias) d.bias = Desc({p.weight[0]}, memory::data_type::f32, memory::format_tag::a);
  d.stride = {p.attrs.stride.h, p.attrs.stride.w};
  d.dilation = {p.attrs.dilation.h - 1, p.attrs.dilation.w - 1};
  d.before = {padding.top, padding.left};
  d.after = {bottom, right};
  return d;
}

using Forward = dnnl::convolution_forward;
using GradInput = dnnl::convolution_backward_data;
using GradWeight = dnnl::convolution_backward_weights;

Forward::primitive_desc forward_pd(const Descriptions& d) {
  const auto kind = dnnl::prop_kind::forward_training;
  return {{kind, d.method, d.x, d.weight, d.bias, d.y, d.stride, d.dilation, d.before, d.after},
          onednn::attributes(),
          onednn::engine(),
          /*allow_empty=*/true};
}

// The forward description that backward ones are made beside.
Forward::primitive_desc hint_pd(const Problem& gradient) {
  Problem forward = gradient;
  forward.pass = Pass::kForward;
  forward.result = gradient.dtype;
  return forward_pd(describe(forward));
}

template <class Convolution, class Description>
Primitive finish(const Description& pd, const Desc& weight) {
  return {Convolution(pd), weight, pd.scratchpad_desc()};
}

Primitive make(const Problem& p) {
  if (p.dtype == DType::kBf16) warn_if_bf16_is_emulated();
  const Descriptions d = describe(p);
  const dnnl::engine& engine = onednn::engine();
  const dnnl::primitive_attr attr = onednn::attributes();
  if (p.pass == Pass::kForward) {
    const auto pd = forward_pd(d);
    return pd ? finish<Forward>(pd, pd.weights_desc()) : Primitive{};
  }
  const auto hint = hint_pd(p);
  if (!hint) return {};
  if (p.pass == Pass::kGradInput) {
    const GradInput::primitive_desc pd(
        {d.method, d.x, d.weight, d.y, d.stride, d.dilation, d.before, d.after}, attr, engine, hint,
        true);
    return pd ? finish<GradInput>(pd, pd.weights_desc()) : Primitive{};
  }
  const GradWeight::primitive_desc pd(
      {d.method, d.x, d.weight, d.y, d.stride, d.dilation, d.before, d.after}, attr, engine, hint,
      true);
  return pd ? finish<GradWeight>(pd, pd.diff_weights_desc()) : Primitive{};
}

std::shared_ptr<const Primitive> find(const Problem& p) {
  return onednn::find_or_make(p.key(), [&] { return make(p); });
}

Support refusal(const Problem& p) {
  return *find(p) ? Support::yes() : Support::no("oneDNN has no such convolution for this CPU");
}

Support supports_forward(const KernelArgs& args) {
  const Support dtypes = onednn::supports_dtypes(args);
  return dtypes ? refusal(forward_problem(args)) : dtypes;
}

template <Pass kPass>
Support supports_gradient(const KernelArgs& args) {
  const Support dtypes = onednn::supports_dtypes(args);
  if (!dtypes) return dtypes;
  const Problem problem = gradient_problem(args, kPass);
  const Size2d dilation = problem.attrs.dilation;
  if (kPass == Pass::kGradWeight && problem.dtype == DType::kBf16 && cpu_features().amx_bf16 &&
      (dilation.h > 1 || dilation.w > 1)) {
    // Seen in 2.6.3: sums over the wrong pixels, for channels that are no multiple of 16.
    return Support::no("oneDNN's dilated bf16 weight gradients are wrong with AMX");
  }
  return refusal(problem);
}

memory image_memory(const Tensor& tensor) {
  return onednn::memory_of(tensor, image(tensor.shape(), tensor.dtype()));
}

void forward(const KernelArgs& args) {
  onednn::guarded("conv2d", args, [&] {
    const Problem p = forward_problem(args);
    const auto primitive = find(p);
    const Tensor x = dense(args.input(0), Format::kChannelsLast);
    const Tensor& weight = args.input(1);
    const onednn::Packed packed =
        onednn::packed(weight, p.weight_dims(), p.weight_strides(weight), primitive->weights);
    const memory y = image_memory(args.output());
    if (!p.has_bias) {
      onednn::execute(
          *primitive,
          {{DNNL_ARG_SRC, image_memory(x)}, {DNNL_ARG_WEIGHTS, packed.memory}, {DNNL_ARG_DST, y}});
      return;
    }
    const Tensor bias = dense(onednn::as_f32(args.input(2)), Format::kContiguous);
    const Desc row({p.weight[0]}, memory::data_type::f32, memory::format_tag::a);
    onednn::execute(*primitive, {{DNNL_ARG_SRC, image_memory(x)},
                                 {DNNL_ARG_WEIGHTS, packed.memory},
                                 {DNNL_ARG_BIAS, onednn::memory_of(bias, row)},
                                 {DNNL_ARG_DST, y}});
  });
}

void grad_input(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_input", args, [&] {
    const Problem p = gradient_problem(args, Pass::kGradInput);
    const auto primitive = find(p);
    const Tensor grad = dense(args.input(0), Format::kChannelsLast);
    const Tensor& weight = args.input(1);
    const onednn::Packed packed =
        onednn::packed(weight, p.weight_dims(), p.weight_strides(weight), primitive->weights);
    onednn::execute(*primitive, {{DNNL_ARG_DIFF_DST, image_memory(grad)},
                                 {DNNL_ARG_WEIGHTS, packed.memory},
                                 {DNNL_ARG_DIFF_SRC, image_memory(args.output())}});
  });
}

// The gradient by x of a convolution with 1x1 kernels is one as well: of the result's gradient,
// with the transposed weight. oneDNN's kernels for forward passes are the faster ones (see
// docs/benchmarks.md). A stride leaves pixels between that no output was computed from.
Problem pointwise_problem(const KernelArgs& args) {
  const Shape& grad = args.input(0).shape();
  const std::int64_t channels = args.input(1).size(1);
  return {Pass::kForward,
          grad,
          {channels, grad[1], 1, 1},
          {grad[0], channels, grad[2], grad[3]},
          Conv2dAttrs{},
          args.input(0).dtype(),
          args.output().dtype()};
}

bool is_pointwise(const KernelArgs& args) {
  const Shape& weight = args.input(1).shape();
  const Conv2dAttrs& attrs = args.attrs<Conv2dGradAttrs>().conv;
  return weight[2] == 1 && weight[3] == 1 && attrs.groups == 1 && attrs.padding == Sides{};
}

Support supports_pointwise(const KernelArgs& args) {
  const Support dtypes = onednn::supports_dtypes(args);
  if (!dtypes) return dtypes;
  if (!is_pointwise(args)) return Support::no("only for 1x1 kernels without padding or groups");
  return refusal(pointwise_problem(args));
}

// Writes the pixels of `from` to every stride-th row and column of `to`, and zeros between them.
// Both are channels-last.
void spread_pixels(const Tensor& from, const Tensor& to, Size2d stride) {
  const Shape& in = from.shape();
  const Shape& out = to.shape();
  const auto pixel = static_cast<std::size_t>(out[1]) * size_of(to.dtype());
  const auto width = static_cast<std::size_t>(out[3]) * pixel;
  const auto* source = static_cast<const std::byte*>(from.raw_data());
  auto* target = static_cast<std::byte*>(to.mutable_raw_data());
  constexpr std::size_t kGrainBytes = 1 << 16;
  const auto grain = static_cast<std::int64_t>(kGrainBytes / std::max<std::size_t>(width, 1));
  parallel_for(out[0] * out[2], grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t h = row % out[2];
      std::byte* const to_row = target + static_cast<std::size_t>(row) * width;
      std::memset(to_row, 0, width);
      if (h % stride.h != 0 || h / stride.h >= in[2]) continue;
      const std::int64_t from_row = row / out[2] * in[2] + h / stride.h;
      for (std::int64_t w = 0; w < in[3]; ++w) {
        std::memcpy(to_row + static_cast<std::size_t>(w * stride.w) * pixel,
                    source + static_cast<std::size_t>(from_row * in[3] + w) * pixel, pixel);
      }
    }
  });
}

void grad_input_pointwise(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_input", args, [&] {
    const Problem p = pointwise_problem(args);
    const auto primitive = find(p);
    const Tensor grad = dense(args.input(0), Format::kChannelsLast);
    const Tensor& weight = args.input(1);
    const Strides& s = weight.strides();
    const onednn::Packed packed =
        onednn::packed(weight, p.weight, {s[1], s[0], s[2], s[3]}, primitive->weights);
    const Tensor& out = args.output();
    const bool has_gaps = p.y != out.shape();
    const Tensor result = has_gaps ? empty(p.y, out.dtype(), Format::kChannelsLast) : out;
    onednn::execute(*primitive, {{DNNL_ARG_SRC, image_memory(grad)},
                                 {DNNL_ARG_WEIGHTS, packed.memory},
                                 {DNNL_ARG_DST, image_memory(result)}});
    if (has_gaps) spread_pixels(result, out, args.attrs<Conv2dGradAttrs>().conv.stride);
  });
}

void grad_input_any(const KernelArgs& args) {
  is_pointwise(args) ? grad_input_pointwise(args) : grad_input(args);
}

void grad_weight(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_weight", args, [&] {
    const Problem p = gradient_problem(args, Pass::kGradWeight);
    const auto primitive = find(p);
    const Tensor grad = dense(args.input(0), Format::kChannelsLast);
    const Tensor x = dense(args.input(1), Format::kChannelsLast);
    const Tensor& out = args.output();
    const Desc plain = onednn::describe(p.weight_dims(), out.dtype(), p.weight_strides(out));
    const memory result = onednn::memory_of(out, plain);
    const auto run = [&](const memory& destination) {
      onednn::execute(*primitive, {{DNNL_ARG_DIFF_DST, image_memory(grad)},
                                   {DNNL_ARG_SRC, image_memory(x)},
                                   {DNNL_ARG_DIFF_WEIGHTS, destination}});
    };
    if (primitive->weights == plain) {
      run(result);
      return;
    }
    const onednn::Temporary blocked(primitive->weights);
    run(blocked.memory);
    onednn::reorder(blocked.memory, result);
  });
}

// f16, and bf16 where oneDNN has no such convolution. oneDNN refuses f16 on CPUs, so it is stored
// in 16 bits and computed in f32: products and sums are f32 numbers, as they are where the hardware
// multiplies f16, and the result is rounded once. Memory is saved, time is not.
template <void (*kRun)(const KernelArgs&)>
constexpr Kernel kWidened{"cpu_onednn_f32", onednn::supports_widened,
                          [](const KernelArgs& args) { onednn::run_widened(args, kRun); }};

}  // namespace

extern const KernelList conv2d{{{{"cpu_onednn", supports_forward, forward}, kWidened<forward>}}};
extern const KernelList conv2d_grad_input{
    {{{"cpu_onednn_1x1", supports_pointwise, grad_input_pointwise},
      {"cpu_onednn", supports_gradient<Pass::kGradInput>, grad_input},
      kWidened<grad_input_any>}}};
extern const KernelList conv2d_grad_weight{
    {{{"cpu_panels", supports_grad_weight, run_grad_weight},
      {"cpu_planar", supports_grad_weight_planar, run_grad_weight_planar},
      {"cpu_onednn", supports_gradient<Pass::kGradWeight>, grad_weight},
      kWidened<grad_weight>}}};

}  // namespace mezzo::kernels::cpu

#include "mezzo/kernels/cpu/conv2d_problem.h"

#include <algorithm>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/layout.h"

namespace mezzo::kernels::conv {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using onednn::Desc;
using onednn::Primitive;

Desc channels_last(const Shape& shape, DType dtype) {
  // As fast as oneDNN's blocked layouts on AVX-512, and every other kernel reads it.
  return {memory::dims(shape.begin(), shape.end()), onednn::type_of(dtype),
          memory::format_tag::nhwc};
}

Desc any_layout(const Shape& shape, DType dtype) {
  return {memory::dims(shape.begin(), shape.end()), onednn::type_of(dtype),
          memory::format_tag::any};
}

memory memory_of(const Tensor& tensor) {
  return onednn::memory_of(tensor, channels_last(tensor.shape(), tensor.dtype()));
}

struct Descriptions {
  Desc x, weight, y, bias;
  memory::dims stride, dilation, before, after;
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
  d.x = p.image(p.x, result_of(Pass::kGradInput));
  d.weight = any_layout(p.weight_dims(), result_of(Pass::kGradWeight));
  d.y = p.image(p.y, result_of(Pass::kForward));
  if (p.has_bias) d.bias = Desc({p.weight[0]}, memory::data_type::f32, memory::format_tag::a);
  d.stride = {p.attrs.stride.h, p.attrs.stride.w};
  d.dilation = {p.attrs.dilation.h - 1, p.attrs.dilation.w - 1};
  d.before = {padding.top, padding.left};
  d.after = {bottom, right};
  if (p.method == Method::kWinograd) d.method = algorithm::convolution_winograd;
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

}  // namespace

onednn::Key Problem::key() const {
  onednn::Key key(0x636f6e76);
  key.add(static_cast<std::int64_t>(method) << 32 | static_cast<std::int64_t>(pass) << 24 |
          static_cast<std::int64_t>(dtype) << 16 | static_cast<std::int64_t>(result) << 8 |
          static_cast<std::int64_t>(has_bias));
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

Shape Problem::weight_dims() const {
  if (attrs.groups == 1) return weight;
  return {attrs.groups, weight[0] / attrs.groups, weight[1], weight[2], weight[3]};
}

Shape Problem::weight_strides(const Tensor& tensor) const {
  const Strides& s = tensor.strides();
  if (attrs.groups == 1) return s;
  return {weight[0] / attrs.groups * s[0], s[0], s[1], s[2], s[3]};
}

Desc Problem::image(const Shape& shape, DType of) const {
  if (method == Method::kDirect) return channels_last(shape, of);
  return {memory::dims(shape.begin(), shape.end()), onednn::type_of(of),
          memory::format_tag::nChw16c};
}

Problem forward_problem(const KernelArgs& args, Method method) {
  return {Pass::kForward,
          args.input(0).shape(),
          args.input(1).shape(),
          args.output().shape(),
          args.attrs<Conv2dAttrs>(),
          args.input(0).dtype(),
          args.output().dtype(),
          args.has(2),
          method};
}

Problem gradient_problem(const KernelArgs& args, Pass pass, Method method) {
  const bool for_input = pass == Pass::kGradInput;
  return {pass,
          (for_input ? args.output() : args.input(1)).shape(),
          (for_input ? args.input(1) : args.output()).shape(),
          args.input(0).shape(),
          args.attrs<Conv2dGradAttrs>().conv,
          args.input(0).dtype(),
          args.output().dtype(),
          /*has_bias=*/false,
          method};
}

std::shared_ptr<const Primitive> find(const Problem& problem) {
  return onednn::find_or_make(problem.key(), [&] { return make(problem); });
}

Support winograd_pays(const Problem& problem) {
  const auto is = [](Size2d size, std::int64_t number) {
    return size.h == number && size.w == number;
  };
  const Conv2dAttrs& attrs = problem.attrs;
  if (problem.dtype != DType::kF32) return Support::no("Winograd's method is for f32 only");
  if (!is({problem.weight[2], problem.weight[3]}, 3) || !is(attrs.stride, 1) ||
      !is(attrs.dilation, 1) || attrs.groups != 1) {
    return Support::no("Winograd's method is for dense 3x3 kernels at stride 1");
  }
  // Measured (docs/benchmarks.md). Transforms pay if many channels share those of an image and many
  // tiles those of the weight; a weight that does not fit into the cache makes direct sums slow.
  constexpr std::int64_t kFewestChannels = 64;
  constexpr std::int64_t kFewestPixels = 2048;
  constexpr std::int64_t kFewestPixelsOfLarge = 768;
  constexpr std::int64_t kLargeWeight = std::int64_t{512} * 512;
  if (std::min(problem.x[1], problem.y[1]) < kFewestChannels) {
    return Support::no("Winograd's method is slower for few channels");
  }
  const std::int64_t pixels = problem.y[0] * problem.y[2] * problem.y[3];
  const bool is_large = problem.x[1] * problem.y[1] >= kLargeWeight;
  if (pixels < (is_large ? kFewestPixelsOfLarge : kFewestPixels)) {
    return Support::no("Winograd's method is slower for few pixels");
  }
  const auto tiled = [](std::int64_t size) { return (size + 3) / 4 * 4; };
  if (4 * problem.y[2] * problem.y[3] < 3 * tiled(problem.y[2]) * tiled(problem.y[3])) {
    return Support::no("tiles of 4x4 pixels would cover too much besides the image");
  }
  return Support::yes();
}

Support support(const Problem& problem) {
  return *find(problem) ? Support::yes()
                        : Support::no("oneDNN has no such convolution for this CPU");
}

ReadImage::ReadImage(const Problem& problem, const Tensor& tensor)
    : dense_(dense(tensor, Format::kChannelsLast)), memory_(memory_of(dense_)) {
  if (problem.method == Method::kDirect) return;
  blocks_.emplace(problem.image(tensor.shape(), tensor.dtype()));
  onednn::reorder(memory_, blocks_->memory);
  memory_ = blocks_->memory;
}

WrittenImage::WrittenImage(const Problem& problem, const Tensor& tensor) : own_(memory_of(tensor)) {
  if (problem.method == Method::kDirect) return;
  blocks_.emplace(problem.image(tensor.shape(), tensor.dtype()));
}

void WrittenImage::finish() const {
  if (blocks_.has_value()) onednn::reorder(blocks_->memory, own_);
}

onednn::Packed packed_weight(const Problem& problem, const Tensor& weight,
                             const Primitive& primitive) {
  return onednn::packed(weight, problem.weight_dims(), problem.weight_strides(weight),
                        primitive.weights);
}

}  // namespace mezzo::kernels::conv

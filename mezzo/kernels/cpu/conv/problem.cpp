#include "mezzo/kernels/cpu/conv/problem.h"

#include <algorithm>
#include <optional>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels::conv {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using onednn::Desc;
using onednn::Primitive;

Desc channels_last(const Shape& shape, DType dtype) {
  // Channels-last is as fast as oneDNN's blocked layouts on AVX-512, and all other kernels read it.
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
};

Descriptions describe(const Problem& p) {
  const auto result_of = [&](Pass pass) { return p.pass == pass ? p.result : p.dtype; };
  const Sides& padding = p.attrs.padding;
  // oneDNN counts the pixels between the kernel's taps, and wants the padding that makes the output
  // size come out without a remainder.
  const Size2d span = p.attrs.window({p.weight[2], p.weight[3]}).span();
  const std::int64_t bottom = (p.y[2] - 1) * p.attrs.stride.h + span.h - p.x[2] - padding.top;
  const std::int64_t right = (p.y[3] - 1) * p.attrs.stride.w + span.w - p.x[3] - padding.left;
  Descriptions d;
  d.x = channels_last(p.x, result_of(Pass::kGradInput));
  d.weight = any_layout(p.weight_dims(), result_of(Pass::kGradWeight));
  d.y = channels_last(p.y, result_of(Pass::kForward));
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
  return onednn::describe_primitive<Forward>(onednn::engine(), onednn::attributes(),
                                             dnnl::prop_kind::forward_training,
                                             algorithm::convolution_direct, d.x, d.weight, d.bias,
                                             d.y, d.stride, d.dilation, d.before, d.after);
}

// The forward description that oneDNN needs as a hint for backward ones.
Forward::primitive_desc hint_pd(const Problem& gradient) {
  Problem forward = gradient;
  forward.pass = Pass::kForward;
  forward.result = gradient.dtype;
  return forward_pd(describe(forward));
}

template <class Gradient>
typename Gradient::primitive_desc gradient_pd(const Descriptions& d,
                                              const Forward::primitive_desc& hint) {
  return onednn::describe_gradient<Gradient>(onednn::engine(), onednn::attributes(), hint,
                                             algorithm::convolution_direct, d.x, d.weight, d.y,
                                             d.stride, d.dilation, d.before, d.after);
}

template <class Convolution, class Description>
Primitive finish(const Description& pd, const Desc& weight) {
  return {Convolution(pd), weight, pd.scratchpad_desc()};
}

Primitive make(const Problem& p) {
  const Descriptions d = describe(p);
  if (p.pass == Pass::kForward) {
    const auto pd = forward_pd(d);
    return pd ? finish<Forward>(pd, pd.weights_desc()) : Primitive{};
  }
  const auto hint = hint_pd(p);
  if (!hint) return {};
  if (p.pass == Pass::kGradInput) {
    const auto pd = gradient_pd<GradInput>(d, hint);
    return pd ? finish<GradInput>(pd, pd.weights_desc()) : Primitive{};
  }
  const auto pd = gradient_pd<GradWeight>(d, hint);
  return pd ? finish<GradWeight>(pd, pd.diff_weights_desc()) : Primitive{};
}

// Runs with one thread: oneDNN's primitives divide their work by the thread count of their
// creation.
class OneThread {
 public:
  OneThread() : before_(num_threads()) { set_num_threads(1); }
  ~OneThread() { set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// oneDNN rejects some valid sizes, such as a stride beyond the image, as errors of its caller. They
// are a reason to take another kernel.
Primitive make_or_none(const Problem& problem) {
  std::optional<OneThread> guard;
  if (problem.on_one_thread) guard.emplace();
  try {
    return make(problem);
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_invalid_arguments && error.status != dnnl_unimplemented) throw;
    return {};
  }
}

}  // namespace

onednn::Key Problem::key() const {
  onednn::Key key(0x636f6e76);
  key.add(static_cast<std::int64_t>(pass) << 24 | static_cast<std::int64_t>(dtype) << 16 |
          static_cast<std::int64_t>(result) << 8 | static_cast<std::int64_t>(on_one_thread) << 1 |
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
          args.output().dtype(),
          /*has_bias=*/false};
}

Problem grad_input_problem(const KernelArgs& args) {
  return gradient_problem(args, Pass::kGradInput);
}

Problem grad_weight_problem(const KernelArgs& args) {
  return gradient_problem(args, Pass::kGradWeight);
}

Problem transposed_problem(const KernelArgs& args) {
  return {Pass::kGradInput,
          args.output().shape(),
          args.input(1).shape(),
          args.input(0).shape(),
          args.attrs<ConvTranspose2dAttrs>().conv,
          args.input(0).dtype(),
          args.output().dtype(),
          args.has(2)};
}

std::shared_ptr<const Primitive> find(const Problem& problem) {
  return onednn::find_or_make(problem.key(), [&] { return make_or_none(problem); });
}

Support support(const Problem& problem) {
  return *find(problem) ? Support::yes()
                        : Support::no("oneDNN has no such convolution for this CPU");
}

Support supports_vector_tensors(const KernelArgs& args) {
  const Support dtypes = vector_dtypes_only(args);
  if (!dtypes) return dtypes;
  const bool is_empty = std::ranges::any_of(
      args.inputs, [](const Tensor* input) { return input->defined() && input->numel() == 0; });
  return is_empty || args.output().numel() == 0 ? Support::no("a tensor has no elements")
                                                : Support::yes();
}

memory image_memory(const Tensor& tensor) {
  return onednn::memory_of(tensor, channels_last(tensor.shape(), tensor.dtype()));
}

onednn::Packed packed_weight(const Problem& problem, const Tensor& weight,
                             const Primitive& primitive) {
  const bool forward = problem.pass == Pass::kForward;
  return onednn::packed(weight, problem.weight_dims(), problem.weight_strides(weight),
                        primitive.weights, forward ? ReadIn::kForward : ReadIn::kBackward);
}

}  // namespace mezzo::kernels::conv

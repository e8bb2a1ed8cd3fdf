#include "mezzo/amp/custom_function.h"

#include <algorithm>

#include "mezzo/amp/autocast.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/node.h"

namespace mezzo::amp {
namespace {

constexpr const char* kOp = "custom_function";

// The origin of a saved tensor, for gradients of gradients.
constexpr std::size_t kInput = kMaxOutputs;  // it has its own history
constexpr std::size_t kOther = kMaxOutputs + 1;

bool is_among(std::span<const Tensor> tensors, const Tensor& tensor) {
  return std::ranges::any_of(tensors, [&](const Tensor& t) { return t.impl() == tensor.impl(); });
}

}  // namespace

// The data of a call that the tape keeps.
struct CustomCall final : RefCounted {
  struct Saved {
    Tensor tensor;
    std::uint64_t version;
    std::size_t source;  // the index of a result, or one of the constants above
  };

  CustomCall(CustomFunction::Pass pass, const FunctionContext& context,
             std::span<const Tensor> inputs, std::span<const Tensor> results)
      : backward(std::move(pass)),
        policy(autocast_policy()),
        is_in_region(is_autocast_enabled()),
        input_count(inputs.size()) {
    for (const Tensor& tensor : context.saved_) {
      const std::uint64_t version = tensor.defined() ? tensor.version() : 0;
      saved.push_back({tensor, version, source_of(tensor, inputs, results)});
    }
    for (const Tensor& result : results) {
      specs.push_back({result.shape(), result.dtype(), result.format()});
      devices.push_back(result.device());
    }
  }

  static std::size_t source_of(const Tensor& tensor, std::span<const Tensor> inputs,
                               std::span<const Tensor> results) {
    if (!tensor.defined() || !is_floating(tensor.dtype()) || is_among(inputs, tensor)) {
      return kInput;
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].impl() == tensor.impl()) return i;
    }
    return kOther;
  }

  // The context of a backward pass.
  FunctionContext context_of(const Backward& ctx) const {
    FunctionContext context;
    for (std::size_t i = 0; i < saved.size(); ++i) {
      const auto& [tensor, version, source] = saved[i];
      if (tensor.defined()) ctx.check_unchanged(tensor, version, "the saved tensor", i);
      check_arg(source != kOther || !ctx.create_graph(), kOp, "the saved tensor ", i, " (", tensor,
                ") is neither an input nor a result, so gradients of gradients would be wrong. "
                "Save inputs, and recompute it in the backward pass");
      context.saved_.push_back(source < kMaxOutputs ? ctx.as_output(source, tensor) : tensor);
    }
    for (std::size_t i = 0; i < input_count; ++i) context.needs_.push_back(ctx.needs(i));
    return context;
  }

  std::vector<Tensor> grads_of_results(const Backward& ctx) const {
    std::vector<Tensor> grads;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const TensorSpec& spec = specs[i];
      const Tensor& grad = ctx.grad(i);
      grads.push_back(grad.defined() ? grad
                                     : zeros(spec.shape, spec.dtype, spec.format, devices[i]));
    }
    return grads;
  }

  CustomFunction::Pass backward;
  Policy policy;
  bool is_in_region;
  std::size_t input_count;
  std::vector<Saved> saved;
  std::vector<TensorSpec> specs;  // of the results
  std::vector<Device> devices;
};

namespace {

void check_grad(const Backward& ctx, std::size_t i, const Tensor& grad) {
  check_arg(can_have_gradients(grad.dtype()) && grad.shape() == ctx.input_shape(i), kOp,
            "the backward pass returns ", grad, " as the gradient of input ", i, ", which is ",
            ctx.input_dtype(i), ctx.input_shape(i), ". Return one of that shape");
}

void backward(Backward& ctx) {
  const auto& call = static_cast<const CustomCall&>(ctx.context());
  FunctionContext context = call.context_of(ctx);
  const std::vector<Tensor> grads = call.grads_of_results(ctx);
  std::vector<Tensor> results;
  {
    const Autocast region(call.policy, call.is_in_region);
    results = call.backward(context, grads);
  }
  check_arg(results.size() == call.input_count, kOp, "the backward pass returns ", results.size(),
            " gradients for ", call.input_count,
            " inputs. Give one for each, undefined where there is none");
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined() || !ctx.needs(i)) continue;
    check_grad(ctx, i, results[i]);
    ctx.set(i, std::move(results[i]));
  }
}

const OpDef kCustomFunction{
    .name = kOp,
    .doc = "a function with a user-defined gradient",
    .precision = {.reason = "the operations inside have their own rules"},
    .backward = backward,
    .grad_outputs = (1U << kMaxOutputs) - 1,
    .may_call_backward = true,
};

void check_results(std::span<const Tensor> results) {
  check_arg(!results.empty() && results.size() <= kMaxOutputs, kOp, "the forward pass returns ",
            results.size(), " results. Give 1 to ", kMaxOutputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    check_arg(results[i].defined(), kOp, "result ", i,
              " of the forward pass is undefined. Return a tensor");
    check_arg(can_have_gradients(results[i].dtype()), kOp, "result ", i, " of the forward pass is ",
              results[i], ", which cannot have a gradient. Give floats of 16 bits or more");
  }
}

}  // namespace

void FunctionContext::save(std::span<const Tensor> tensors) {
  saved_.insert(saved_.end(), tensors.begin(), tensors.end());
}

CustomFunction::CustomFunction(Pass forward, Pass backward, const CustomFunctionOptions& options)
    : forward_(std::move(forward)), backward_(std::move(backward)), options_(options) {
  check_arg(forward_ != nullptr && backward_ != nullptr, kOp,
            "a pass is empty. Give both functions");
  const DType dtype = options.cast_inputs.value_or(DType::kF32);
  check_arg(takes_part(dtype), kOp, "cast_inputs must be ", trainable_dtypes(), ", it is ", dtype);
}

CustomFunction::Tensors CustomFunction::operator()(std::span<const Tensor> inputs) const {
  Tensors cast_inputs(inputs.begin(), inputs.end());
  FunctionContext context;
  if (!options_.cast_inputs.has_value() || !is_autocast_enabled()) {
    return run_forward(context, cast_inputs);
  }
  for (Tensor& input : cast_inputs) {
    if (input.defined() && takes_part(input.dtype())) input = cast(input, *options_.cast_inputs);
  }
  const NoAutocast outside;
  return run_forward(context, cast_inputs);
}

CustomFunction::Tensors CustomFunction::run_forward(FunctionContext& context,
                                                    std::span<const Tensor> inputs) const {
  std::vector<const Tensor*> places;
  for (const Tensor& input : inputs) places.push_back(&input);
  const bool records = should_record(kCustomFunction, places);
  for (const Tensor& input : inputs) {
    context.needs_.push_back(records && input.defined() && input.requires_grad());
  }
  Tensors results;
  {
    const NoGrad no_grad;
    results = forward_(context, inputs);
  }
  check_results(results);
  Ref<CustomCall> call;
  if (records) call = make_ref<CustomCall>(backward_, context, inputs, results);
  // New handles, because a function may return an input or a tensor that it has saved.
  for (Tensor& result : results) {
    if (records || result.requires_grad()) result = result.detach();
  }
  if (records) record(kCustomFunction, {}, places, results, Ref<RefCounted>(call.get()));
  return results;
}

}  // namespace mezzo::amp

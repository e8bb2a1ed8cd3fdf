#include "mezzo/ops/batch_norm.h"

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/batch_norm_grad.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/fusion/pending_norm.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/update/flat_kernels.h"

namespace mezzo {
namespace {

using NormIn = BatchNormInput;

constexpr const char* kStatisticsReason =
    "keeps the dtype of x; statistics are f32 inside, because 16 bits lose them: a bf16 sum stops "
    "growing after 256 equal terms, and x * x leaves f16's range";

void check_per_channel(const Infer& infer, std::size_t i, const char* name) {
  if (!infer.has(i)) return;
  const DType wanted = infer.dtype(NormIn::kX) == DType::kF64 ? DType::kF64 : DType::kF32;
  const Shape shape{infer.shape(NormIn::kX)[1]};
  infer.check(infer.shape(i) == shape && infer.dtype(i) == wanted, name, " must be ", wanted, shape,
              " for x of shape ", infer.shape(NormIn::kX), ", it is ", infer.input(i),
              ". Give one value for each channel");
}

void infer_batch_norm(Infer& infer) {
  const auto& attrs = infer.attrs<BatchNormAttrs>();
  infer.check_floating(NormIn::kX, "x");
  const Shape& shape = infer.shape(NormIn::kX);
  infer.check(shape.rank() == 2 || shape.rank() == 4, "x must be [n, c] or [n, c, h, w], it is ",
              shape, ". Use reshape()");
  check_per_channel(infer, NormIn::kWeight, "weight");
  check_per_channel(infer, NormIn::kBias, "bias");
  check_per_channel(infer, NormIn::kRunningMean, "running_mean");
  check_per_channel(infer, NormIn::kRunningVar, "running_var");
  if (infer.has(NormIn::kResidual)) {
    infer.check(infer.shape(NormIn::kResidual) == shape, "the residual has shape ",
                infer.shape(NormIn::kResidual), ", x has ", shape, ". Give it the shape of x");
    infer.check(attrs.relu, "a residual without ReLU is a plain add(). Set relu, or call add()");
    infer.check_same_dtype(NormIn::kX, NormIn::kResidual);
  }
  infer.check(attrs.eps >= 0, "eps must not be negative: ", attrs.eps, ". Use 1e-5");
  infer.output(shape, infer.dtype(NormIn::kX),
               shape.rank() == 4 ? Format::kChannelsLast : Format::kContiguous);
  if (!attrs.training) {
    infer.check(infer.has(NormIn::kRunningMean) && infer.has(NormIn::kRunningVar),
                "running_mean and running_var are needed when not training. Give both");
    return;
  }
  infer.check(shape.numel() * distributed::process_count(attrs.processes) >= 2 * shape[1] &&
                  shape.numel() > 0,
              "training needs at least two values per channel to have a variance, x is ", shape,
              ". Use a larger batch, drop the last incomplete one, or set training = false");
  const DType stats = infer.dtype(NormIn::kX) == DType::kF64 ? DType::kF64 : DType::kF32;
  infer.output({shape[1]}, stats);
  infer.output({shape[1]}, stats);
}

// Saves only what the backward pass needs. The ReLU's mask is not stored. Without a residual it is
// the sign of (x - mean) * scale + bias, recomputed with the instructions of the forward pass from
// x, which must be read anyway. With a residual that would read the residual as well. y has the
// same signs for the same memory traffic, and the next layer keeps it for its own gradient. If the
// next layer does not keep y, the residual is read: see recompute_norm(). A bit mask would take 1/8
// byte more memory per element, all the time, to save an eighth of the traffic of these layers'
// first backward pass.
void batch_norm_backward(Backward& ctx) {
  const auto& attrs = ctx.attrs<BatchNormAttrs>();
  BatchNormSaved saved;
  if (ctx.has_input(NormIn::kWeight)) saved.weight = ctx.input(NormIn::kWeight);
  if (ctx.has_input(NormIn::kBias)) saved.bias = ctx.input(NormIn::kBias);
  saved.mean = attrs.training ? ctx.output(1) : ctx.input(NormIn::kRunningMean);
  saved.var = attrs.training ? ctx.output(2) : ctx.input(NormIn::kRunningVar);
  if (ctx.has_input(NormIn::kResidual)) {
    saved.y = ctx.output_if_kept(0);
    if (!saved.y.defined()) saved.residual = ctx.input(NormIn::kResidual);
  }
  if (ctx.create_graph() && distributed::process_count(attrs.processes) > 1) {
    fail<UnsupportedError>("batch_norm",
                           "gradients of gradients are not supported when processes share "
                           "statistics. Use those of each process alone for them");
  }
  saved.x = ctx.take_input(NormIn::kX);  // last: an exception above leaves the graph as it was
  const BatchNormGrads grads =
      ctx.create_graph()
          ? batch_norm_grad_by_ops(ctx.grad(), saved, attrs)
          : batch_norm_grad(ctx.take_grad(), std::move(saved), attrs, ctx.take_other_grad());
  if (ctx.needs(NormIn::kX)) ctx.set(NormIn::kX, grads.x);
  if (ctx.needs(NormIn::kWeight)) ctx.set(NormIn::kWeight, grads.weight);
  if (ctx.needs(NormIn::kBias)) ctx.set(NormIn::kBias, grads.bias);
  if (ctx.needs(NormIn::kResidual)) ctx.set(NormIn::kResidual, grads.residual);
}

SampleInput per_channel(std::int64_t c, double low, double high) { return {{c}, low, high}; }

// Batch statistics if `training`, else given ones; |y| stays below 8 for these ranges.
Sample sample(const Shape& x, bool training, bool relu, bool residual) {
  const std::int64_t c = x[1];
  const SampleInput absent{{}, 0, 1, false, true};
  Sample result{{{x, -1, 2}, per_channel(c, 0.5, 1.5), per_channel(c, -0.5, 0.5)},
                BatchNormAttrs{training, relu, 1e-3},
                std::max<std::int64_t>(1, x.numel() / std::max<std::int64_t>(c, 1)),
                8};
  result.inputs.push_back(training ? absent : per_channel(c, -0.5, 0.5));
  result.inputs.push_back(training ? absent : per_channel(c, 0.5, 2));
  if (residual) result.inputs.push_back({x, -2, 2});
  return result;
}

Sample without_affine(Sample sample) {
  sample.inputs[NormIn::kWeight].absent = true;
  sample.inputs[NormIn::kBias].absent = true;
  return sample;
}

std::vector<Sample> samples_of(bool relu, bool residual) {
  std::vector<Sample> samples;
  for (const bool training : {true, false}) {
    samples.push_back(sample({3, 4, 3, 5}, training, relu, residual));
    samples.push_back(sample({5, 17, 2, 3}, training, relu, residual));
    samples.push_back(sample({33, 3}, training, relu, residual));
    samples.push_back(sample({19, 1}, training, relu, residual));
    samples.push_back(sample({4, 65, 3, 3}, training, relu, residual));
    samples.push_back(sample({3, 1030}, training, relu, residual));
  }
  samples.push_back(sample({0, 3, 2, 2}, false, relu, residual));
  return samples;
}

}  // namespace

namespace ops {

extern const OpDef batch_norm{
    .name = "batch_norm",
    .doc =
        "(x - mean) / sqrt(var + eps) * weight + bias per channel of [n, c] or [n, c, h, w], "
        "optionally followed by ReLU",
    .precision = {.lower = PrecisionClass::kKeep,
                  .cast_mask = 1U << NormIn::kX,
                  .reason = kStatisticsReason},
    .saves = {.inputs = 0b11111, .outputs = 0b110},
    .infer = infer_batch_norm,
    .backward = batch_norm_backward,
    .again = recompute_norm,
    .exchanges = batch_norm_exchanges,
    .grad_inputs = 0b111,
    .samples =
        [] {
          std::vector<Sample> samples = samples_of(false, false);
          for (Sample& with_relu : samples_of(true, false)) samples.push_back(with_relu);
          samples.push_back(without_affine(sample({4, 5, 3, 3}, true, true, false)));
          return samples;
        },
    .errors = []() -> std::vector<ErrorSample> {
      const BatchNormAttrs training{};
      const BatchNormAttrs inference{.training = false};
      const SampleInput absent{{}, 0, 1, false, true};
      return {{{{{1, 3, 1, 1}}}, training, "at least two values per channel"},
              {{{{0, 3, 2, 2}}}, training, "at least two values per channel"},
              {{{{2, 3, 4}}}, training, "x must be [n, c] or [n, c, h, w], it is [2, 3, 4]"},
              {{{{2, 3}}, {{4}}}, training, "weight must be f32[3]"},
              {{{{2, 3}}, absent, {{3, 1}}}, training, "bias must be f32[3]"},
              {{{{2, 3}}, absent, absent, {{3}}}, inference, "running_mean and running_var"}};
    },
    .ulps = 8,
};

extern const OpDef batch_norm_add_relu{
    .name = "batch_norm_add_relu",
    .doc = "max(batch_norm(x) + residual, 0)",
    .precision = {.lower = PrecisionClass::kKeep,
                  .cast_mask = 1U << NormIn::kX | 1U << NormIn::kResidual,
                  .reason = kStatisticsReason},
    .saves = {.inputs = 0b11111, .outputs = 0b111, .if_kept = 1U << NormIn::kResidual},
    .promote = 1U << NormIn::kX | 1U << NormIn::kResidual,
    .infer = infer_batch_norm,
    .backward = batch_norm_backward,
    .again = recompute_norm,
    .exchanges = batch_norm_exchanges,
    .grad_inputs = 0b100111,
    .samples =
        [] {
          std::vector<Sample> samples = samples_of(true, true);
          samples.push_back(without_affine(sample({4, 5, 3, 3}, true, true, true)));
          return samples;
        },
    .errors = []() -> std::vector<ErrorSample> {
      const SampleInput absent{{}, 0, 1, false, true};
      return {{{{{2, 3}}, absent, absent, absent, absent, {{2, 4}}},
               BatchNormAttrs{.relu = true},
               "the residual has shape [2, 4], x has [2, 3]"}};
    },
    .ulps = 8,
    .adds_grads = true,
};

}  // namespace ops

BatchNormResult batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift,
                           const BatchNormOptions& options) {
  // These are a few values per channel: f32 copies cost nothing, and kernels need only one case.
  const Tensor weight = widen(scale);
  const Tensor bias = widen(shift);
  const bool add_relu = options.residual.defined() && options.relu;
  const BatchNormAttrs attrs{options.training, options.relu, options.eps, options.processes};
  // Running statistics are not used in training; leaving them out leaves them free to be updated.
  const Tensor none;
  const Tensor& mean = options.training ? none : options.running_mean;
  const Tensor& var = options.training ? none : options.running_var;
  Outputs outputs = add_relu ? call(ops::batch_norm_add_relu,
                                    {&x, &weight, &bias, &mean, &var, &options.residual}, attrs)
                             : call(ops::batch_norm, {&x, &weight, &bias, &mean, &var}, attrs);
  BatchNormResult result{std::move(outputs[0]), {}, {}};
  if (options.residual.defined() && !add_relu) result.y = add(result.y, options.residual);
  if (options.training) {
    result.mean = std::move(outputs[1]);
    result.var = std::move(outputs[2]);
  }
  return result;
}

namespace {

// The statistics of a network in f64, which is computed on the host by plain loops.
void blend_f64(const Tensor& running, const Tensor& batch, double take, double keep) {
  auto* kept = running.mutable_data<double>();
  const auto* taken = batch.data<double>();
  for (std::int64_t i = 0; i < running.numel(); ++i) kept[i] = keep * kept[i] + take * taken[i];
}

}  // namespace

void update_running_stats(const Tensor& running_mean, const Tensor& running_var,
                          const Tensor& batch_mean, const Tensor& batch_var, double momentum,
                          std::int64_t count) {
  const Shape& shape = running_mean.shape();
  for (const Tensor* stats : {&running_mean, &running_var, &batch_mean, &batch_var}) {
    const bool is_one_dtype = stats->dtype() == running_mean.dtype();
    const bool is_known = stats->dtype() == DType::kF32 || stats->dtype() == DType::kF64;
    check_arg(is_one_dtype && is_known && stats->shape() == shape && stats->is_dense(),
              "update_running_stats", "statistics must be dense and f32", shape,
              ", or all in f64, one is ", *stats, ". Make them with zeros()");
    check_arg(stats->device() == running_mean.device(), "update_running_stats",
              "statistics are on ", running_mean.device(), " and ", stats->device(), ". Use to()");
  }
  check_arg(count >= 2, "update_running_stats", "the batch had ", count,
            " values per channel, which have no variance. Use larger batches, or eval()");
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  if (running_mean.dtype() == DType::kF64) {
    blend_f64(running_mean, batch_mean, momentum, 1 - momentum);
    blend_f64(running_var, batch_var, momentum * unbiased, 1 - momentum);
    return;
  }
  const Device device = running_mean.device();
  const auto blend = [&](const Tensor& running, const Tensor& batch, double take) {
    running.bump_version();
    return flat::Blend{static_cast<float*>(running.address()),
                       static_cast<const float*>(batch.address()), take};
  };
  flat::kernels_on(device).blend(device,
                                 {blend(running_mean, batch_mean, momentum),
                                  blend(running_var, batch_var, momentum * unbiased)},
                                 running_mean.numel(), 1 - momentum);
}

}  // namespace mezzo

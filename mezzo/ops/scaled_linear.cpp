#include "mezzo/ops/scaled_linear.h"

#include <algorithm>

#include "mezzo/ops/all.h"
#include "mezzo/ops/as_rows.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/delayed_scale.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/node.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/matmul_attrs.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/scaled_matmul.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

constexpr const char* kOp = kScaledLinearName;

thread_local ScaledProducts* scaled_products = nullptr;

ScaleBy by_of(Scaling scaling) {
  switch (scaling) {
    case Scaling::kCurrent:
    case Scaling::kDelayed: return ScaleBy::kTensor;
    case Scaling::kRows: return ScaleBy::kLine;
    case Scaling::kMxfp8: return ScaleBy::kBlock;
  }
  return ScaleBy::kTensor;
}

// True where one rounding serves both products of a tensor. Scales of lines and blocks depend on
// the dimension that is summed over.
bool has_one_form(const ScalingRecipe& recipe) { return by_of(recipe.scaling) == ScaleBy::kTensor; }

enum class Role : std::uint8_t { kX, kWeight, kGrad };

const DelayedScale& scale_of(const ProductScales& scales, Role role) {
  if (role == Role::kX) return scales.x;
  return role == Role::kWeight ? scales.weight : scales.grad;
}

// Rounds an operand by the recipe. `columns`: the product sums over its columns' elements, that is
// over rows. `notes`: whether a history takes note of it.
ScaledTensor round_operand(const Tensor& x, const ScaledProduct& product, Role role, bool columns,
                           bool notes) {
  const ScalingRecipe& recipe = product.recipe;
  ScaledCastOptions options{.dtype = role == Role::kGrad ? recipe.grad_dtype : recipe.dtype,
                            .by = by_of(recipe.scaling),
                            .columns = columns && !has_one_form(recipe)};
  if (product.scales == nullptr) return scaled_cast(x, options);
  const DelayedScale& delayed = scale_of(*product.scales, role);
  options.scale = delayed.scale;
  ScaledTensor result = scaled_cast(x, options);
  if (notes) note_amax(delayed, result.amax);
  return result;
}

constexpr std::uint64_t kCodesCopy = 0x636f6465;  // DerivedKey::kind of weights in eight bits

struct SharedCodes final : RefCounted {
  ScaledTensor codes;
};

// A weight by the recipe. The codes of a parameter are made once per change of it, and shared by
// all forward passes until the next. Under delayed scaling they depend on the step's scale, too.
ScaledTensor round_weight(const Tensor& weight, const ScaledProduct& product, bool columns) {
  const bool is_shared = product.scales == nullptr && capture_hook() == nullptr &&
                         weight.is_leaf() && weight.requires_grad();
  const auto round = [&] {
    return round_operand(weight, product, Role::kWeight, columns, product.takes_notes && !columns);
  };
  if (!is_shared) return round();
  const ScalingRecipe& recipe = product.recipe;
  const auto detail = static_cast<std::uint64_t>(recipe.dtype) << 8U |
                      static_cast<std::uint64_t>(by_of(recipe.scaling)) << 1U |
                      static_cast<std::uint64_t>(columns && !has_one_form(recipe));
  const DerivedKey key = derived_key(weight, kCodesCopy, detail);
  DerivedCopies& copies = weight.storage()->derived();
  if (const Ref<RefCounted> found = copies.find(key, weight.version())) {
    return static_cast<const SharedCodes&>(*found).codes;
  }
  auto made = make_ref<SharedCodes>();
  made->codes = round();
  copies.put(key, weight.version(), Ref<RefCounted>(made.get()));
  return made->codes;
}

// What the tape keeps of a call.
struct SavedProduct final : RefCounted {
  ScaledProduct product;
  ScaledTensor x;       // as the gradient of the weight reads it
  Tensor wide_x;        // instead, for wide_weight_grad
  ScaledTensor weight;  // empty where the gradient of x needs another form than the product
};

// The gradient of x: G [m, out] times W [out, in], summed over `out`.
Tensor grad_of_x(const Backward& ctx, const SavedProduct& saved, const ScaledTensor& grad) {
  const ScaledTensor weight =
      saved.weight.codes.defined() ? saved.weight : round_weight(ctx.input(1), saved.product, true);
  return reshape(scaled_matmul(grad, weight, {.dtype = ctx.grad_dtype(0)}), ctx.input_shape(0));
}

// The gradient of the weight: G^T [out, m] times X [m, in], summed over the rows.
Tensor grad_of_weight(const Backward& ctx, const SavedProduct& saved, const Tensor& rows,
                      const ScaledTensor& grad) {
  if (saved.wide_x.defined()) {
    return matmul(rows.astype(saved.wide_x.dtype()), saved.wide_x,
                  {.transpose_a = true, .f32_result = ctx.grad_dtype(1) == DType::kF32})
        .astype(ctx.grad_dtype(1));
  }
  return scaled_matmul(grad, saved.x, {.transpose_a = true, .dtype = ctx.grad_dtype(1)});
}

void backward(Backward& ctx) {
  const auto& saved = static_cast<const SavedProduct&>(ctx.context());
  if (ctx.create_graph()) {
    fail<UnsupportedError>(kOp,
                           "gradients of gradients are not supported where products have eight "
                           "bits. Compute in 16 bits or f32 for them");
  }
  const auto& scales = saved.product.scales;
  if (scales != nullptr && scales->went_back != nullptr && capture_hook() == nullptr) {
    scales->went_back->store(true);
  }
  const Tensor rows = as_rows(ctx.grad());
  const bool rounds_both = has_one_form(saved.product.recipe);
  const bool scales_weight_grad = ctx.needs(1) && !saved.wide_x.defined();
  ScaledTensor by_rows;
  if (ctx.needs(0) || (rounds_both && scales_weight_grad)) {
    by_rows = round_operand(rows, saved.product, Role::kGrad, false, true);
  }
  if (ctx.needs(0)) ctx.set(0, grad_of_x(ctx, saved, by_rows));
  if (ctx.needs(1)) {
    const bool rounds_again = scales_weight_grad && !rounds_both;
    ctx.set(1, grad_of_weight(ctx, saved, rows,
                              rounds_again
                                  ? round_operand(rows, saved.product, Role::kGrad, true, false)
                                  : by_rows));
  }
  if (ctx.inputs() > 2 && ctx.needs(2)) ctx.set(2, sum(rows, {0}, false, ctx.grad_dtype(2)));
}

const OpDef kScaledLinear{
    .name = kOp,
    .doc = "linear(), and the products of its gradients, in eight bits",
    .precision = {.reason = "its parts round what they are given"},
    .saves = {.inputs = 0b010},
    .backward = backward,
};

void check_operands(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_arg(x.rank() >= 1 && weight.rank() == 2 && x.shape().back() == weight.shape()[1], "linear",
            "weight [out, in] expects x [..., in], x is ", x, ", weight ", weight,
            ". Change x, or the layer's in_features");
  if (!bias.defined()) return;
  check_arg(bias.shape() == Shape{weight.shape()[0]}, "linear", "bias must have the shape ",
            Shape{weight.shape()[0]}, ", one value per output feature, it is ", bias.shape(),
            ". Use reshape(), or leave it out");
}

}  // namespace

bool has_scaled_form(const OpDef& op) {
  return &op == &ops::linear || &op == &ops::matmul || &op == &ops::conv2d;
}

bool has_scaled_form(const OpDef& op, Inputs inputs, const Attrs& attrs) {
  if (&op == &ops::linear) return true;
  if (&op == &ops::matmul) {
    return inputs[0]->rank() >= 2 && inputs[1]->rank() == 2 && !attrs.as<MatmulAttrs>().f32_result;
  }
  if (&op != &ops::conv2d || inputs[0]->rank() != 4 || inputs[1]->rank() != 4) return false;
  const auto& conv = attrs.as<Conv2dAttrs>();
  const Shape& weight = inputs[1]->shape();
  return conv.is_pointwise({weight[2], weight[3]}) && conv.stride == Size2d(1) &&
         inputs[0]->size(1) == weight[1];
}

void set_scaled_products(ScaledProducts* products) { scaled_products = products; }

std::optional<ScaledProduct> scaled_product_of(const OpDef& op, const Tensor& x,
                                               const Tensor& weight) {
  if (scaled_products == nullptr || precision_hook() == nullptr) [[likely]]
    return std::nullopt;
  if (!is_trainable(x.dtype()) || !is_trainable(weight.dtype())) return std::nullopt;
  return scaled_products->of(op, weight);
}

Tensor scaled_linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const ScaledProduct& product) {
  check_operands(x, weight, bias);
  const Tensor* const places[] = {&x, &weight, &bias};
  const bool records = should_record(kScaledLinear, places);
  const bool needs_weight = records && weight.requires_grad();
  const bool one_form = has_one_form(product.recipe);
  auto saved = make_ref<SavedProduct>();
  Tensor y;
  {
    const NoGrad no_grad;
    const Tensor rows = as_rows(x.detach());
    const ScaledTensor codes = round_operand(rows, product, Role::kX, false, product.takes_notes);
    const ScaledTensor weights = round_weight(weight, product, false);
    y = scaled_matmul(codes, weights, {.transpose_b = true, .dtype = product.dtype, .bias = bias});
    if (needs_weight && product.recipe.wide_weight_grad) {
      saved->wide_x = rows.astype(product.dtype);
    } else if (needs_weight) {
      saved->x = one_form ? codes : round_operand(rows, product, Role::kX, true, false);
    }
    if (records && x.requires_grad() && one_form) saved->weight = weights;
  }
  Shape shape = x.shape();
  shape.back() = weight.shape()[0];
  Tensor result = reshape(y, shape).detach();
  if (!records) return result;
  saved->product = product;
  record(kScaledLinear, {}, places, {&result, 1}, Ref<RefCounted>(saved.get()));
  return result;
}

}  // namespace mezzo

#include "tests/sweep/sweep.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/random.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo::sweep {
namespace {

// The values of input i of a sample, row-major, before rounding to a dtype.
Tensor make_values(const SampleInput& spec, std::uint64_t seed, Values values) {
  Generator generator(seed);
  if (spec.integer) {
    const Tensor x = empty(spec.shape, DType::kI64);
    auto* out = x.mutable_data<std::int64_t>();
    const auto range = static_cast<std::uint64_t>(spec.high - spec.low);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      out[i] =
          static_cast<std::int64_t>(spec.low) + static_cast<std::int64_t>(generator.below(range));
    }
    return x;
  }
  const Tensor x = empty(spec.shape, DType::kF64);
  auto* out = x.mutable_data<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (spec.boolean) {
      out[i] = static_cast<double>(generator.below(2));
      continue;
    }
    out[i] = values == Values::kSmallIntegers
                 ? static_cast<double>(generator.below(7)) - 3
                 : spec.low + (spec.high - spec.low) * generator.uniform();
  }
  return x;
}

Tensor lay_out(const Tensor& values, DType dtype, Layout layout) {
  const Shape& shape = values.shape();
  Tensor x;
  if (layout == Layout::kStrided && shape.rank() > 0) {
    Shape larger = shape;
    larger.back() = 2 * larger.back() + 1;
    const Tensor block = full(larger, is_floating(dtype) ? std::nan("") : 0, dtype);
    Strides strides = block.strides();
    strides[shape.rank() - 1] = 2;
    x = alias(block, shape, strides, 1);
  } else {
    x = empty(shape, dtype,
              layout == Layout::kChannelsLast && shape.rank() == 4 ? Format::kChannelsLast
                                                                   : Format::kContiguous);
  }
  copy_elements(values, x);
  return x;
}

}  // namespace

const char* name_of(Layout layout) {
  switch (layout) {
    case Layout::kDense: return "dense";
    case Layout::kChannelsLast: return "channels-last";
    case Layout::kStrided: return "strided";
  }
  return "?";
}

std::vector<Tensor> make_inputs(const OpDef& op, const Sample& sample, DType dtype, Values values,
                                Layout layout) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const SampleInput& spec = sample.inputs[i];
    if (spec.absent) {
      inputs.emplace_back();
      continue;
    }
    // An op of which a region casts no input takes any dtype.
    const bool is_left_alone = op.precision.cast_mask == 0;
    const bool stays_wide = !is_left_alone && !op.precision.may_cast(i) && is_lower(dtype);
    const DType wanted = spec.dtype_in(stays_wide ? DType::kF32 : dtype);
    // Rounded first, so that all layouts and dtypes of one width start from the same values.
    inputs.push_back(lay_out(make_values(spec, 1 + i, values), wanted, layout));
  }
  return inputs;
}

std::vector<const Tensor*> pointers(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> result;
  for (const Tensor& tensor : tensors) result.push_back(&tensor);
  return result;
}

std::vector<Tensor> reference_outputs(const OpDef& op, const std::vector<Tensor>& inputs,
                                      const Attrs& attrs, std::span<const Tensor> like) {
  std::vector<Tensor> outputs;
  for (const Tensor& output : like) {
    outputs.push_back(empty(output.shape(), DType::kF64));
  }
  const std::vector<const Tensor*> in = pointers(inputs);
  run_reference(*kernels_of(op).ref, {in, outputs, attrs});
  return outputs;
}

namespace {

// The first element with too large an error, as text; empty if there is none.
std::string first_difference(const OpDef& op, const Sample& sample, const Tensor& result,
                             const Tensor& expected, bool exact, DType inner) {
  const auto got = result.to_vector<double>();
  const auto want = expected.to_vector<double>();
  const auto rounded = expected.astype(result.dtype()).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = exact ? 0 : tolerance(op, sample, result.dtype(), want[i], inner);
    const double target = exact ? rounded[i] : want[i];
    // Beyond the dtype's range both must be the same infinity.
    const bool same = got[i] == rounded[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    if (!same && !(std::abs(got[i] - target) <= allowed)) {
      return concat("element ", i, " of ", got.size(), ": got ", got[i], ", expected ", target,
                    ", allowed difference ", allowed);
    }
  }
  return {};
}

}  // namespace

Tensor on_device(const Tensor& tensor, Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  const Storage& from = *tensor.storage();
  Ref<Storage> block = make_ref<Storage>(from.bytes(), device);
  copy_bytes(block->data(), device, from.data(), from.device(), from.bytes());
  return Tensor(make_ref<TensorImpl>(std::move(block), tensor.offset(), tensor.shape(),
                                     tensor.strides(), tensor.dtype()));
}

void compare(const OpDef& op, const Sample& sample, const std::vector<Tensor>& inputs,
             const std::string& name, bool exact, Device device) {
  std::vector<Tensor> moved;
  for (const Tensor& input : inputs) moved.push_back(on_device(input, device));
  const std::vector<const Tensor*> in = pointers(moved);
  const Outputs outputs = call(op, in, sample.attrs);
  std::vector<Tensor> results;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    EXPECT_EQ(outputs[k].device(), device) << name;
    results.push_back(outputs[k].to(kCpuDevice));
  }
  const std::vector<Tensor> expected = reference_outputs(op, inputs, sample.attrs, results);
  const auto narrow = std::ranges::find_if(
      inputs, [](const Tensor& input) { return input.defined() && is_lower(input.dtype()); });
  for (std::size_t k = 0; k < results.size(); ++k) {
    const DType inner = narrow != inputs.end() ? narrow->dtype() : results[k].dtype();
    EXPECT_EQ(first_difference(op, sample, results[k], expected[k], exact, inner), "")
        << name << " output " << k << " attrs: " << sample.attrs.to_text();
  }
}

void expect_agreement(const OpDef& op, Device device) {
  if (op.infer == nullptr) return;  // views have no kernel
  const std::vector<Sample> samples = op.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      for (const Layout layout : kAllLayouts) {
        compare(op, samples[i], make_inputs(op, samples[i], dtype, Values::kRandom, layout),
                describe(op, i, dtype, layout), false, device);
      }
    }
  }
}

void expect_exactness(const OpDef& op, Device device) {
  if (!op.exact || op.infer == nullptr) return;
  const std::vector<Sample> samples = op.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      compare(op, samples[i], make_inputs(op, samples[i], dtype, Values::kSmallIntegers),
              describe(op, i, dtype, Layout::kDense), true, device);
    }
  }
}

namespace {

// Half the distance of a dtype's subnormal numbers, where it is larger than any that matters.
double half_of_smallest(DType dtype) {
  switch (dtype) {
    case DType::kF16: return 0x1p-25;
    case DType::kE4m3: return 0x1p-10;
    case DType::kE5m2: return 0x1p-17;
    default: return 0;
  }
}

}  // namespace

double tolerance(const OpDef& op, const Sample& sample, DType result, double expected,
                 DType inner) {
  constexpr double kUnit = 0x1p-24;  // half a unit in the last place of f32
  const double size = std::max(std::abs(expected), sample.magnitude);
  const auto terms = static_cast<double>(sample.terms);
  const double smallest = half_of_smallest(result);
  const double rounding = is_floating(result) ? epsilon_of(result) / 2 * std::abs(expected) : 0;
  const double sums = terms > 1 ? std::sqrt(terms) * kUnit * terms * sample.magnitude : 0;
  const double narrow =
      is_lower(inner) ? sample.lower_roundings * epsilon_of(inner) / 2 * sample.magnitude : 0;
  return rounding * 1.001 + smallest + 2 * op.ulps * kUnit * size + sums + narrow;
}

std::string describe(const OpDef& op, std::size_t sample, DType dtype, Layout layout) {
  return concat(op.name, " #", sample, " ", dtype, " ", name_of(layout));
}

std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> ops;
  for (const RegisteredOp& entry : registered_ops()) ops.push_back(entry.op);
  return ops;
}

}  // namespace mezzo::sweep

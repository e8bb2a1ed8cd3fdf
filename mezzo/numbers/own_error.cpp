#include "mezzo/numbers/own_error.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "mezzo/core/convert_element.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"
#include "mezzo/numbers/tensor_difference.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"

namespace mezzo::numbers {
namespace {

constexpr double kRoundings = 4;
constexpr double kSums = 8;
// Half of the least number of f16: what is rounded below its normal numbers is off by up to that.
constexpr double kF16Step = 0x1p-25;

double unit_roundoff(DType dtype) { return epsilon_of(dtype) / 2; }

bool has_16_bits(const amp::ObservedStepCall& call) {
  const auto is_narrow = [](const Tensor& tensor) {
    return tensor.defined() && is_lower(tensor.dtype());
  };
  return std::ranges::any_of(call.outputs, is_narrow) ||
         std::ranges::any_of(call.inputs, [&](const Tensor* input) { return is_narrow(*input); });
}

// The bytes between the first and the last element of a tensor.
std::pair<const char*, const char*> range_of_memory(const Tensor& tensor) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < tensor.rank(); ++i) {
    last += (tensor.shape()[i] - 1) * tensor.strides()[i];
  }
  const auto* begin = static_cast<const char*>(tensor.address());
  return {begin, begin + (last + 1) * static_cast<std::int64_t>(size_of(tensor.dtype()))};
}

// Whether the elements of an input may be gone.
bool is_overwritten(const amp::ObservedStepCall& call) {
  if (call.is_change) return true;
  for (const Tensor& output : call.outputs) {
    if (!output.defined() || output.numel() == 0 || !output.storage()->is_materialized()) continue;
    const auto [begin, end] = range_of_memory(output);
    for (const Tensor* input : call.inputs) {
      if (!input->defined() || input->numel() == 0 || !input->storage()->is_materialized())
        continue;
      const auto [from, to] = range_of_memory(*input);
      if (from < end && begin < to) return true;
    }
  }
  return false;
}

// Codes of eight bits are what they are in every dtype: a call that makes or reads them cannot be
// made again in a wider one.
bool has_codes(const amp::ObservedStepCall& call) {
  const auto is_code = [](const Tensor& x) { return x.defined() && is_eight_bit(x.dtype()); };
  return std::ranges::any_of(call.outputs, is_code) ||
         std::ranges::any_of(call.inputs, [&](const Tensor* input) { return is_code(*input); });
}

bool can_be_measured(const amp::ObservedStepCall& call, Measured measured) {
  if (measured == Measured::kNone || call.op.name == std::string_view("cast")) return false;
  if (has_codes(call)) return false;
  const bool has_result = std::ranges::any_of(call.outputs, [](const Tensor& output) {
    return output.defined() && is_floating(output.dtype()) && output.dtype() != DType::kF64;
  });
  const bool is_wanted = measured == Measured::kAll || has_16_bits(call);
  const bool is_on_host = call.outputs[0].defined() && call.outputs[0].device().is_cpu();
  return has_result && is_wanted && is_on_host && !is_overwritten(call);
}

std::vector<Tensor> widened(Inputs inputs, DType dtype) {
  std::vector<Tensor> wide;
  for (const Tensor* input : inputs) {
    const bool is_cast = input->defined() && is_floating(input->dtype());
    wide.push_back(is_cast ? cast(input->detach(), promote(input->dtype(), dtype)) : *input);
  }
  return wide;
}

// 1 or -1, by the place alone.
double sign_at(std::int64_t place) {
  std::uint64_t bits = static_cast<std::uint64_t>(place) + 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return (bits >> 63U) != 0 ? -1 : 1;
}

Tensor moved(const Tensor& tensor, double by) {
  if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.numel() == 0) return tensor;
  const Tensor copy = copy_of(tensor);
  visit_dtype(copy.dtype(), [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>) {
      T* elements = copy.mutable_data<T>();
      parallel_for(copy.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          elements[i] = static_cast<T>(elements[i] * (1 + by * sign_at(i)));
        }
      });
    }
  });
  return copy;
}

Outputs call_again(const amp::ObservedStepCall& call, const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> pointers;
  pointers.reserve(inputs.size());
  for (const Tensor& input : inputs) pointers.push_back(&input);
  return mezzo::call(call.op, Inputs(pointers), call.attrs);
}

// What the rounding of the result explains.
double explained_by_rounding(const Tensor& output, const TensorDifference& difference) {
  double explained = rounding_of(output.dtype());
  if (has_narrow_range(output.dtype()) && difference.norm > 0) {
    explained += kF16Step * std::sqrt(static_cast<double>(difference.count)) / difference.norm;
  }
  return explained;
}

// A call and the same one in the wider dtype.
class Measurement {
 public:
  explicit Measurement(const amp::ObservedStepCall& call)
      : call_(call),
        dtype_(has_16_bits(call) ? DType::kF32 : DType::kF64),
        inputs_(widened(call.inputs, dtype_)),
        wide_(call_again(call, inputs_)) {}

  std::vector<OwnError> errors() {
    std::vector<OwnError> errors(call_.outputs.size());
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = error_of(i);
    return errors;
  }

 private:
  OwnError error_of(std::size_t i) {
    const Tensor& output = call_.outputs[i];
    if (!output.defined() || !is_floating(output.dtype())) return {};
    if (!wide_[i].defined() || wide_[i].shape() != output.shape()) return {};
    const TensorDifference difference = difference_of(wide_[i], output);
    OwnError error{.is_measured = true,
                   .error = difference.relative(),
                   .largest = difference.largest_to_largest(),
                   .explained = explained_by_rounding(output, difference)};
    if (error.is_beyond()) error.explained += response(i);
    return error;
  }

  double response(std::size_t i) {
    if (!moved_.has_value()) {
      double terms = 1;
      for (std::size_t k = 0; k < call_.outputs.size(); ++k) {
        terms = std::max(terms, terms_of(call_, k));
      }
      double by = kSums * std::sqrt(terms) * unit_roundoff(DType::kF32);
      const DType result = call_.outputs[0].dtype();
      if (is_lower(result)) by += kRoundings * unit_roundoff(result);
      std::vector<Tensor> inputs;
      for (const Tensor& input : inputs_) inputs.push_back(moved(input, by));
      moved_ = call_again(call_, inputs);
    }
    return difference_of(wide_[i], (*moved_)[i]).relative();
  }

  const amp::ObservedStepCall& call_;
  DType dtype_;
  std::vector<Tensor> inputs_;
  Outputs wide_;
  std::optional<Outputs> moved_;
};

}  // namespace

double rounding_of(DType dtype) { return kRoundings * unit_roundoff(dtype); }

double terms_of(const amp::ObservedStepCall& call, std::size_t output) {
  const Tensor& result = call.outputs[output];
  if (!result.defined() || result.numel() == 0) return 1;
  const auto elements = static_cast<double>(result.numel());
  double terms = 1;
  for (const Tensor* input : call.inputs) {
    if (input->defined()) terms = std::max(terms, static_cast<double>(input->numel()) / elements);
  }
  if (output > 0 || call.op.flops == nullptr) return terms;
  return std::max(terms, call.op.flops(call.inputs, call.outputs, call.attrs) / 2 / elements);
}

std::vector<OwnError> own_errors(const amp::ObservedStepCall& call, Measured measured) {
  if (!can_be_measured(call, measured)) return std::vector<OwnError>(call.outputs.size());
  try {
    return Measurement(call).errors();
  } catch (const Error&) {
    // The operation is not made for the wider dtype.
    return std::vector<OwnError>(call.outputs.size());
  }
}

}  // namespace mezzo::numbers

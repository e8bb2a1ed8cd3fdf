// Checks gradients of every op: against finite differences in double, twice, and in 16 bits against
// double.
#include <cmath>

#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/reduce.h"
#include "tests/sweep/sweep.h"

namespace mezzo::sweep {
namespace {

class EveryGradient : public testing::TestWithParam<const OpDef*> {};

constexpr double kStep = 1e-6;
// Central differences have an error of O(step^2) plus rounding / step: about 1e-10 relative to
// values of order 1. The margin covers the factors with which second derivatives enter.
constexpr double kAllowed = 1e-5;
// Elements checked per input, spread over the tensor. For sanitizers a few are enough.
#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t kMostElements = 3;
#else
constexpr std::int64_t kMostElements = 60;
#endif

Tensor random_weights(const Shape& shape, std::uint64_t seed) {
  Generator generator(seed);
  const Tensor weights = empty(shape, DType::kF64);
  auto* out = weights.mutable_data<double>();
  for (std::int64_t i = 0; i < weights.numel(); ++i) out[i] = generator.uniform() - 0.5;
  return weights;
}

bool has_grad_input(const OpDef& op, const std::vector<Tensor>& inputs, std::size_t i) {
  return inputs[i].defined() && is_floating(inputs[i].dtype()) &&
         (op.grad_inputs >> std::min<std::size_t>(i, 31) & 1U) != 0;
}

// The inputs whose gradients are checked.
std::vector<Tensor> make_leaves(const OpDef& op, std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (has_grad_input(op, inputs, i)) leaves.push_back(inputs[i].set_requires_grad(true));
  }
  return leaves;
}

// Finite differences need an output in double. Only a cast chooses its dtype; attributes of other
// ops say how the result relates to the inputs ("f32_result": 16-bit inputs give f32).
bool gives_double(const OpDef& op, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  const std::vector<const Tensor*> in = pointers(inputs);
  const bool is_double = call(op, in, attrs)[0].dtype() == DType::kF64;
  EXPECT_TRUE(is_double || op.takes_f32_grad)
      << op.name << " gives no f64 from f64: " << attrs.to_text();
  return is_double;
}

// A scalar that depends on every output element, each with a different weight.
Tensor weighted_sum(const OpDef& op, const std::vector<Tensor>& inputs, const Attrs& attrs) {
  const std::vector<const Tensor*> in = pointers(inputs);
  const Outputs outputs = call(op, in, attrs);
  Tensor total;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if ((op.grad_outputs >> k & 1U) == 0) continue;
    const Tensor weights = random_weights(outputs[k].shape(), 77 + k);
    const Tensor part = sum(outputs[k].astype(DType::kF64) * weights);
    total = total.defined() ? total + part : part;
  }
  return total;
}

// d(scalar)/d(element) by central differences.
double difference(const Tensor& x, std::int64_t element, const std::function<double()>& scalar) {
  double* data = x.mutable_data<double>();
  const double original = data[element];
  data[element] = original + kStep;
  const double above = scalar();
  data[element] = original - kStep;
  const double below = scalar();
  data[element] = original;
  return (above - below) / (2 * kStep);
}

void expect_close(const Tensor& x, const Tensor& gradient, const std::function<double()>& scalar,
                  const std::string& name) {
  const auto analytic = gradient.to_vector<double>();
  const std::int64_t stride = std::max<std::int64_t>(1, x.numel() / kMostElements);
  for (std::int64_t i = 0; i < x.numel(); i += stride) {
    const double numeric = difference(x, i, scalar);
    const double got = analytic[static_cast<std::size_t>(i)];
    ASSERT_NEAR(got, numeric, kAllowed * std::max(1.0, std::abs(numeric)))
        << name << " element " << i;
  }
}

TEST_P(EveryGradient, AgreesWithFiniteDifferences) {
  const OpDef& op = *GetParam();
  if (op.backward == nullptr) return;
  const std::vector<Sample> samples = op.samples();
  for (std::size_t s = 0; s < samples.size(); ++s) {
    std::vector<Tensor> inputs = make_inputs(op, samples[s], DType::kF64);
    if (!gives_double(op, inputs, samples[s].attrs)) continue;
    const std::vector<Tensor> leaves = make_leaves(op, inputs);
    const Tensor total = weighted_sum(op, inputs, samples[s].attrs);
    if (leaves.empty() || !total.requires_grad()) continue;
    const std::vector<Tensor> gradients = grad({&total, 1}, leaves);
    const auto scalar = [&] {
      const NoGrad guard;
      return weighted_sum(op, inputs, samples[s].attrs).item();
    };
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const std::string name =
          concat(op.name, " #", s, " gradient ", i, " of ", samples[s].attrs.to_text());
      ASSERT_TRUE(gradients[i].defined()) << name << ": say so in grad_inputs if there is none";
      ASSERT_EQ(gradients[i].dtype(), DType::kF64) << name;
      expect_close(leaves[i], gradients[i], scalar, name);
    }
  }
}

// The sum of all gradients, each element with a different weight. Its derivatives are second
// derivatives.
Tensor weighted_gradients(const OpDef& op, const std::vector<Tensor>& inputs,
                          const std::vector<Tensor>& leaves, const Attrs& attrs) {
  const GradMode recording(true);
  const Tensor total = weighted_sum(op, inputs, attrs);
  const std::vector<Tensor> gradients = grad({&total, 1}, leaves, {}, {.create_graph = true});
  Tensor result;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor part = sum(gradients[i] * random_weights(gradients[i].shape(), 99 + i));
    result = result.defined() ? result + part : part;
  }
  return result;
}

TEST_P(EveryGradient, CanBeDifferentiatedAgain) {
  const OpDef& op = *GetParam();
  if (op.backward == nullptr) return;
  const std::vector<Sample> samples = op.samples();
  for (std::size_t s = 0; s < samples.size(); ++s) {
    const Attrs& attrs = samples[s].attrs;
    std::vector<Tensor> inputs = make_inputs(op, samples[s], DType::kF64);
    const std::vector<Tensor> leaves = make_leaves(op, inputs);
    if (leaves.empty() || !weighted_sum(op, inputs, attrs).requires_grad()) continue;
    const Tensor total = weighted_gradients(op, inputs, leaves, attrs);
    if (!total.requires_grad()) continue;  // linear: the gradient is a constant
    const std::vector<Tensor> second = grad({&total, 1}, leaves);
    const auto scalar = [&] { return weighted_gradients(op, inputs, leaves, attrs).item(); };
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!second[i].defined()) continue;
      expect_close(leaves[i], second[i], scalar,
                   concat(op.name, " #", s, " second derivative ", i));
    }
  }
}

// The largest difference relative to the largest element.
double relative_difference(const Tensor& got, const Tensor& want) {
  const auto a = got.to_vector<double>();
  const auto b = want.to_vector<double>();
  double difference = 0;
  double size = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    size = std::max(size, std::abs(b[i]));
  }
  return difference / size;
}

TEST_P(EveryGradient, In16BitsIsTheRoundedGradient) {
  const OpDef& op = *GetParam();
  if (op.backward == nullptr) return;
  const std::vector<Sample> samples = op.samples();
  for (std::size_t s = 0; s < samples.size(); ++s) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      std::vector<Tensor> inputs = make_inputs(op, samples[s], dtype);
      std::vector<Tensor> wide;  // the same values in double
      for (const Tensor& input : inputs) {
        const bool widen = input.defined() && is_floating(input.dtype());
        wide.push_back(widen ? input.astype(DType::kF64) : input);
      }
      const std::vector<Tensor> leaves = make_leaves(op, inputs);
      const std::vector<Tensor> wide_leaves = make_leaves(op, wide);
      const Tensor total = weighted_sum(op, inputs, samples[s].attrs);
      if (leaves.empty() || !total.requires_grad()) continue;
      const Tensor wide_total = weighted_sum(op, wide, samples[s].attrs);
      const std::vector<Tensor> got = grad({&total, 1}, leaves);
      const std::vector<Tensor> want = grad({&wide_total, 1}, wide_leaves);
      // The incoming gradient, the saved output and the result are each rounded once, and a
      // gradient is a sum of such terms: a few units of the dtype, growing with sqrt(terms).
      const double allowed =
          4 * epsilon_of(dtype) * std::sqrt(1 + static_cast<double>(samples[s].terms));
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        ASSERT_EQ(got[i].dtype(), leaves[i].dtype()) << op.name << " #" << s;
        EXPECT_LE(relative_difference(got[i], want[i]), allowed)
            << op.name << " #" << s << " gradient " << i << " in " << mezzo::name_of(dtype);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Grad, EveryGradient, testing::ValuesIn(all_ops()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace mezzo::sweep

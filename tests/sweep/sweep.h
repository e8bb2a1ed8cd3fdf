// Shared code of the sweeps: builds the inputs of a sample, runs it, and defines tolerances.
#pragma once

#include <string>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/op.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo::sweep {

enum class Values {
  kRandom,         // uniform in the sample's range
  kSmallIntegers,  // -3..3: sums and products of these are exact in every dtype
};

enum class Layout {
  kDense,         // row-major
  kChannelsLast,  // 4-D tensors in channels-last memory, others row-major
  kStrided,       // every second element of a larger block, starting at the second
};
inline constexpr Layout kAllLayouts[] = {Layout::kDense, Layout::kChannelsLast, Layout::kStrided};
const char* name_of(Layout layout);

// The inputs of a sample: the same values for every layout, rounded to the dtype. In 16-bit sweeps,
// inputs outside the op's cast mask are f32, as a mixed-precision region would leave them. If a
// region casts none of an op's inputs, all of them have the dtype.
std::vector<Tensor> make_inputs(const OpDef& op, const Sample& sample, DType dtype,
                                Values values = Values::kRandom, Layout layout = Layout::kDense);

std::vector<const Tensor*> pointers(const std::vector<Tensor>& tensors);

// The expected outputs: those of the reference kernel in double on the same inputs.
std::vector<Tensor> reference_outputs(const OpDef& op, const std::vector<Tensor>& inputs,
                                      const Attrs& attrs, std::span<const Tensor> like);

// The same elements at the same offsets of a block on another device; to() would close the gaps of
// a strided tensor.
Tensor on_device(const Tensor& tensor, Device device);

// Calls the op on a device and compares it with the reference kernel: exactly, rounded to the
// result's dtype, or within tolerance().
void compare(const OpDef& op, const Sample& sample, const std::vector<Tensor>& inputs,
             const std::string& name, bool exact, Device device = kCpuDevice);

// Compares every sample of the op on random values, in every vector dtype and layout; see
// compare().
void expect_agreement(const OpDef& op, Device device = kCpuDevice);
// Compares every sample on small integers, exactly, in every vector dtype. Does nothing if the op
// does not claim to be exact.
void expect_exactness(const OpDef& op, Device device = kCpuDevice);

// Casts from every dtype to e4m3 and e5m2, and from them to every dtype, in every layout on a
// device, against convert_element().
void expect_eight_bit_casts(Device device = kCpuDevice);

// The allowed difference from `expected`:
//   half a unit in the last place of the result's dtype (one rounding), plus
//   `ulps` roundings of f32 arithmetic, relative to the larger of the result and one term, plus
//   `lower_roundings` roundings to `inner`, the 16-bit dtype of the operands, of values within
//   `magnitude`, plus
//   for sums of n terms the probabilistic bound sqrt(n) * u * sum |term| of Higham and Mary,
//   "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41 (2019).
double tolerance(const OpDef& op, const Sample& sample, DType result, double expected, DType inner);

// `conv2d #3 bf16 strided`: identifies the case in a failure message.
std::string describe(const OpDef& op, std::size_t sample, DType dtype, Layout layout);

// The registered operations, as test parameters with readable names.
std::vector<const OpDef*> all_ops();

}  // namespace mezzo::sweep

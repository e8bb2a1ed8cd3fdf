// Shared by the sweeps: building the inputs of a sample, running it, and how close results must be.
#pragma once

#include <string>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/op.h"
#include "mezzo/ops/dispatcher/registry.h"

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

// The inputs of a sample; the same numbers for every layout, rounded to the dtype. Inputs outside
// the op's cast mask are f32 in 16-bit sweeps, as a mixed-precision region would leave them, unless
// it casts none: such an op takes what comes.
std::vector<Tensor> make_inputs(const OpDef& op, const Sample& sample, DType dtype,
                                Values values = Values::kRandom, Layout layout = Layout::kDense);

std::vector<const Tensor*> pointers(const std::vector<Tensor>& tensors);

// What the op must give: the reference kernel in double on the same inputs.
std::vector<Tensor> reference_outputs(const OpDef& op, const std::vector<Tensor>& inputs,
                                      const Attrs& attrs, std::span<const Tensor> like);

// The same elements at the same places of a block on another device: to() would close the gaps of a
// strided tensor.
Tensor on_device(const Tensor& tensor, Device device);

// Calls the op on a device and expects what the reference kernel gives: exactly that, rounded to
// the result's dtype, or within tolerance().
void compare(const OpDef& op, const Sample& sample, const std::vector<Tensor>& inputs,
             const std::string& name, bool exact, Device device = kCpuDevice);

// Every sample of the op on random numbers, in every vector dtype and layout: see compare().
void expect_agreement(const OpDef& op, Device device = kCpuDevice);
// Every sample on small integers, exactly, in every vector dtype; nothing if the op does not claim
// to be exact.
void expect_exactness(const OpDef& op, Device device = kCpuDevice);

// How far a result may be from `expected`:
//   half a unit in the last place of the result's dtype (one rounding), plus
//   `ulps` roundings of f32 arithmetic, relative to the larger of the result and one term, plus
//   for sums of n terms the probabilistic bound sqrt(n) * u * sum |term| of Higham and Mary,
//   "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41 (2019).
double tolerance(const OpDef& op, const Sample& sample, DType result, double expected);

// `conv2d #3 bf16 strided`: what a failure message needs to find the case again.
std::string describe(const OpDef& op, std::size_t sample, DType dtype, Layout layout);

// The registered operations, as test parameters with readable names.
std::vector<const OpDef*> all_ops();

}  // namespace mezzo::sweep

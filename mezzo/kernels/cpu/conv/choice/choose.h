// Which method computes a convolution: all that decides it, in one place.
//
// Each operation's kernels stand in conv2d.cpp in order of preference, and the first that takes a
// call computes it. Whether a method takes one is decided here, from the problem and the machine
// alone, so that tests/unit/ops/conv_choice.txt can list what is chosen on machines that are not at
// hand. A rule says two things: what the method can compute, and where it was measured to be the
// fastest. The measurements are in docs/benchmarks/convolutions.md.
#pragma once

#include "mezzo/kernels/cpu/conv/choice/machine.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::conv {

// A way to compute a convolution.
struct Method {
  const char* name;  // of its kernel, in lists, logs and MEZZO_DISABLE_KERNELS
  Support (*takes)(const Problem& problem, const Machine& machine);
};

extern const Method kFullyConnected;  // all of a small image at once
extern const Method kIm2col;          // windows that do not overlap, gathered
extern const Method kCol2im;          // gradients of windows, added up
extern const Method kWinograd;
extern const Method kPixels;        // 1x1 kernels in bf16
extern const Method kPointwise;     // gradients of 1x1 kernels as forward passes of oneDNN
extern const Method kDirect;        // bf16 on the tile unit
extern const Method kDirectNarrow;  // the same, of few channels
extern const Method kPlanar;        // few channels of the result
extern const Method kRowSums;       // gradients by images of few channels
extern const Method kGradWeight;
extern const Method kGradWeightPlanar;

// Whether the method takes a call on this machine, with `problem_of(args)` its problem.
template <const Method& kMethod, Problem (*problem_of)(const KernelArgs&)>
Support takes(const KernelArgs& args) {
  const Support tensors = supports_vector_tensors(args);
  return tensors ? kMethod.takes(problem_of(args), this_machine()) : tensors;
}

// The kernel that computes the problem on that machine, of those that an operation lists: the first
// whose method takes it. Of oneDNN's it is assumed that they compute everything in f32, and in bf16
// where that is fast.
const char* choose(const KernelList& kernels, const Problem& problem, const Machine& machine);

}  // namespace mezzo::kernels::conv

#include "mezzo/kernels/cpu/conv/choice/choose.h"

#include <algorithm>
#include <string_view>

#include "mezzo/core/cpu.h"
#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/as_gemm/pixel_pairs.h"
#include "mezzo/kernels/cpu/conv/defects.h"
#include "mezzo/kernels/cpu/conv/direct/direct_narrow.h"
#include "mezzo/kernels/cpu/conv/direct/direct_plan.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_columns.h"
#include "mezzo/kernels/cpu/conv/planar/planar_problem.h"
#include "mezzo/kernels/cpu/conv/planar/row_sums.h"
#include "mezzo/kernels/cpu/conv/winograd/winograd_plan.h"
#include "mezzo/kernels/cpu/gemm/pixel_rows.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"

namespace mezzo::kernels::conv {

Machine this_machine() {
  return {.lanes = mezzo::has_vectors() ? vector_lanes() : 0,
          .has_tiles = kernels::has_tiles(),
          .has_fast_dot = has_fast_bf16_dot()};
}

namespace {

Support supports_groups(const Problem& p) {
  return p.attrs.groups == 1 ? Support::yes() : Support::no("groups are not supported");
}

Support supports_bf16(const Problem& p) {
  return p.dtype == DType::kBf16 && p.result == DType::kBf16
             ? Support::yes()
             : Support::no("only bf16 is supported");
}

bool is_strided(const Problem& p) { return p.attrs.stride != Size2d(1); }
std::int64_t taps(const Problem& p) { return p.weight[2] * p.weight[3]; }

// --- All of an image at once --------------------------------------------------------------------

Support takes_fully_connected(const Problem& p, const Machine& /*machine*/) {
  if (const Support groups = supports_groups(p); !groups) return groups;
  return PixelPairs::are_worth_it(p) ? Support::yes()
                                     : Support::no("only for many images of a few pixels");
}

// --- Windows as rows of a matrix ----------------------------------------------------------------

// One thread's time relative to the kernels listed after it: gradients by images whose channels are
// no whole vectors 0.001 to 0.8, others 0.8 to 1.6; forward passes and weight gradients 0.4 to 1.1
// where this holds, 0.9 to 3 elsewhere.
Support is_im2col_worth_it(const Problem& p) {
  constexpr std::int64_t kVector = 16;
  const bool is_odd = p.weight[1] % kVector != 0;
  if (p.pass == Pass::kGradInput) {
    constexpr std::int64_t kLeastPiece = 6;  // elements that are copied at a time
    return is_odd && p.weight[1] * p.weight[3] >= kLeastPiece
               ? Support::yes()
               : Support::no("other kernels are as fast for this many channels");
  }
  const std::int64_t least = is_odd ? 512 : 1024;
  return p.weight[1] * taps(p) >= least
             ? Support::yes()
             : Support::no("other kernels are as fast for patches this small");
}

Support takes_im2col(const Problem& p, const Machine& /*machine*/) {
  const Conv2dAttrs& a = p.attrs;
  if (taps(p) == 1) return Support::no("only for windows of several pixels");
  if (a.stride.h < p.weight[2] || a.stride.w < p.weight[3]) {
    return Support::no("only for windows that do not overlap");
  }
  if (a.padding != Sides{} || a.groups != 1 || a.dilation != Size2d(1)) {
    return Support::no("only without padding, groups or dilation");
  }
  return is_im2col_worth_it(p);
}

// One thread's time relative to the kernels listed after it: 0.2 to 0.8 where this holds, 0.9
// to 1.8 at stride 1, up to 1.6 for fewer channels of the result, and 0.3 to 2.1 for more channels
// of the image. Without the tile unit, cpu_row_sums is faster.
Support takes_col2im(const Problem& p, const Machine& machine) {
  if (p.attrs.groups != 1 || p.attrs.dilation != Size2d(1)) {
    return Support::no("only without groups or dilation");
  }
  if (p.dtype != DType::kBf16 || !machine.has_tiles) {
    return Support::no("only for bf16 on the tile unit");
  }
  if (!is_strided(p)) return Support::no("only for strides above 1");
  if (p.weight[1] > 8) return Support::no("only for images of few channels");
  return p.weight[0] >= 32 ? Support::yes() : Support::no("only for many output channels");
}

// --- Winograd's method --------------------------------------------------------------------------

using winograd::kResults;
using winograd::Tiling;

Tiling winograd_tiling_of(const Problem& p) {
  return {.images = p.x[0],
          .image = {p.x[2], p.x[3]},
          .results = {p.y[2], p.y[3]},
          .top = p.attrs.padding.top,
          .left = p.attrs.padding.left};
}

// Transforms pay if many channels share those of an image and enough tiles those of the weight,
// which take longer when it leaves the caches.
Support is_winograd_worth_it(const Problem& p) {
  constexpr std::int64_t kFewestChannels = 24;
  constexpr std::int64_t kLargeWeight = 1 << 16;
  const std::int64_t fewest_tiles = p.pass == Pass::kGradWeight ? 32 : 16;  // for a large weight
  const std::int64_t in = p.x[1];
  const std::int64_t out = p.y[1];
  if (std::min(in, out) < kFewestChannels) {
    return Support::no("Winograd's method is slower for few channels");
  }
  const Tiling tiling = winograd_tiling_of(p);
  if (tiling.tiles() * kLargeWeight < fewest_tiles * std::min(in * out, kLargeWeight)) {
    return Support::no("Winograd's method is slower for few pixels");
  }
  const Size2d results = tiling.results;
  if (2 * results.h * results.w < tiling.rows() * tiling.columns() * kResults * kResults) {
    return Support::no("tiles of 4x4 pixels would cover too much outside the image");
  }
  return Support::yes();
}

// A dot product of bf16 does twice the arithmetic of f32's multiply-add: less is won, and what the
// transforms take counts twice.
Support is_winograd_worth_it_beside_dots(const Problem& p) {
  const Tiling tiling = winograd_tiling_of(p);
  const std::int64_t tiles = tiling.tiles();
  if (p.pass == Pass::kGradWeight) {
    constexpr std::int64_t kLeastWork = 1 << 19;
    return tiles * p.x[1] * p.y[1] >= kLeastWork
               ? Support::yes()
               : Support::no("the dot product is faster for this little work");
  }
  constexpr std::int64_t kFewestTiles = 64;
  if (tiles < kFewestTiles) return Support::no("the dot product is faster for few pixels");
  const Size2d results = tiling.results;
  return 2 * tiling.points() <= 5 * results.h * results.w
             ? Support::yes()
             : Support::no("the dot product is faster for images that do not fill whole tiles");
}

Support takes_winograd(const Problem& p, const Machine& machine) {
  if (p.attrs.exact) return Support::no("the call asks for direct sums");
  if (!machine.has_vectors()) return Support::no("needs AVX2 or NEON");
  // Rounded to 16 bits between the steps, the bits that cancel would be missing: everything is f32.
  if (p.dtype == DType::kBf16 && machine.has_tiles) {
    return Support::no("the CPU multiplies bf16 much faster than f32");
  }
  if (Size2d{p.weight[2], p.weight[3]} != Size2d(winograd::kTaps) || is_strided(p) ||
      p.attrs.dilation != Size2d(1) || p.attrs.groups != 1) {
    return Support::no("Winograd's method is for dense 3x3 kernels at stride 1");
  }
  if (p.dtype == DType::kBf16 && machine.has_fast_dot) {
    const Support beside_dots = is_winograd_worth_it_beside_dots(p);
    if (!beside_dots) return beside_dots;
  }
  return is_winograd_worth_it(p);
}

// --- 1x1 kernels --------------------------------------------------------------------------------

Support is_pointwise_problem(const Problem& p) {
  return p.attrs.is_pointwise({p.weight[2], p.weight[3]})
             ? Support::yes()
             : Support::no("only for 1x1 kernels without padding or groups");
}

Support takes_pixels(const Problem& p, const Machine& machine) {
  if (!machine.has_fast_bf16()) {
    return Support::no("this CPU has neither AMX nor a fast bf16 dot product");
  }
  if (const Support bf16 = supports_bf16(p); !bf16) return bf16;
  if (const Support pointwise = is_pointwise_problem(p); !pointwise) return pointwise;
  return p.x[1] % pixels::kBlock == 0 && p.y[1] % pixels::kBlock == 0
             ? Support::yes()
             : Support::no("only for multiples of 32 channels");
}

// Whether oneDNN computes that dtype itself. It makes up for missing instructions at a third of the
// speed of f32.
Support takes_onednn(const Problem& p, const Machine& machine) {
  if (p.dtype == DType::kF16) return Support::no("oneDNN does not compute f16 on CPUs");
  return p.dtype == DType::kF32 || machine.has_fast_bf16()
             ? Support::yes()
             : Support::no("the CPU multiplies f32 faster than bf16");
}

Support takes_pointwise(const Problem& p, const Machine& machine) {
  if (const Support onednn = takes_onednn(p, machine); !onednn) return onednn;
  return is_pointwise_problem(p);
}

// --- Directly, on the tile unit -----------------------------------------------------------------

// One thread's time relative to oneDNN 2.6.3: gradients at a stride 0.35 to 0.5; at stride 1, 0.7
// to 0.9 for images of 4x4 to 8x8 pixels and their gradients 0.3 to 0.95 up to 16x16, while larger
// images take 0.95 to 1.2. So do convolutions at a stride, where oneDNN is to be trusted and whole
// images are enough for the threads.
Support is_direct_worth_it(const Problem& p) {
  constexpr std::int64_t kManyImages = 16;  // as many as a CPU with AMX has cores for, at least
  const bool is_forward = p.pass == Pass::kForward;
  if (is_strided(p) && (!is_forward || p.x[0] < kManyImages || !is_trusted(p))) {
    return Support::yes();
  }
  const std::int64_t few_pixels = is_forward ? 64 : 256;
  return p.y[2] * p.y[3] <= few_pixels ? Support::yes()
                                       : Support::no("oneDNN is as fast for this many pixels");
}

Support takes_direct(const Problem& p, const Machine& machine) {
  if (!machine.has_tiles) return Support::no("this CPU has no AMX");
  if (const Support bf16 = supports_bf16(p); !bf16) return bf16;
  if (const Support groups = supports_groups(p); !groups) return groups;
  if (taps(p) == 1) return Support::no("only for kernels of several taps");
  if (p.weight[0] % direct::kBlock != 0 || p.weight[1] % direct::kBlock != 0) {
    return Support::no("only for multiples of 32 channels");
  }
  const Support worth = is_direct_worth_it(p);
  if (!worth) return worth;
  return direct::plan_for(p, 1).is_possible()
             ? Support::yes()
             : Support::no("the result is larger than what it reads");
}

// Where it takes 0.4 to 0.95 of oneDNN 2.6.3's time on two threads. With more than half of the
// tiles empty, for the elements of a kernel's row cannot be cut evenly, it takes up to 1.15;
// forward, images of 16 channels take 1.05.
Support is_direct_narrow_worth_it(const Problem& p, const direct_narrow::Problem& narrow) {
  constexpr std::int64_t kTileWidth = 32;  // elements of a tile's row
  if (narrow.channels > (p.pass == Pass::kForward ? 15 : 16)) {
    return Support::no("only for few channels");
  }
  if (narrow.outs > 64) return Support::no("only for few output channels");
  const direct_narrow::Plan plan(narrow);
  if (plan.blocks == 0) return Support::no("the kernel's rows cannot be divided");
  const bool is_full = plan.blocks == 1 || 2 * plan.width >= kTileWidth;
  return is_full ? Support::yes() : Support::no("most of the tiles would be empty");
}

Support takes_direct_narrow(const Problem& p, const Machine& machine) {
  if (!machine.has_tiles) return Support::no("this CPU has no AMX");
  if (const Support bf16 = supports_bf16(p); !bf16) return bf16;
  if (const Support groups = supports_groups(p); !groups) return groups;
  if (p.attrs.dilation != Size2d(1)) return Support::no("only without dilation");
  if (is_strided(p)) return Support::no("only at stride 1");
  const direct_narrow::Problem narrow = direct_narrow::problem_of(p);
  if (narrow.kernel.w == 1) return Support::no("only for kernels of several columns");
  if (narrow.top < 0 || narrow.left < 0) return Support::no("the padding is wider than the kernel");
  return is_direct_narrow_worth_it(p, narrow);
}

// --- Few channels -------------------------------------------------------------------------------

// Counts of vector instructions, with constants as measured.
//
// cpu_row_sums, for a pixel of the result. There are as many rows of images as of the result times
// the stride.
std::int64_t row_sums_instructions(const row_sums::Problem& p, const Machine& machine) {
  constexpr std::int64_t kAdded = 8;   // for every vector of a piece, to a row of an image
  constexpr std::int64_t kBegun = 24;  // for every pixel in a row of an image
  const std::int64_t products = p.kernel.h * p.steps();
  return ceil_div(p.piece(), machine.lanes) * (products + kAdded * p.stride.h) +
         kBegun * p.stride.h;
}

// oneDNN, for the same pixel: its vectors hold the channels of one.
std::int64_t onednn_instructions(const row_sums::Problem& p, const Machine& machine) {
  constexpr std::int64_t kBesides = 10;
  return p.kernel.h * p.kernel.w * ceil_div(p.channels, machine.lanes) * p.steps() + kBesides;
}

row_sums::Problem row_sums_problem(const Problem& p, const Machine& machine) {
  return row_sums::problem_of(
      p, p.dtype == DType::kBf16 && !machine.has_tiles && machine.has_fast_dot);
}

Support takes_row_sums(const Problem& p, const Machine& machine) {
  if (!machine.has_vectors()) return Support::no("needs AVX2 or NEON");
  if (p.attrs.groups != 1 || p.attrs.dilation != Size2d(1)) {
    return Support::no("only without groups or dilation");
  }
  if (p.dtype == DType::kBf16 && machine.has_tiles) return Support::no("the tile unit is faster");
  const row_sums::Problem rows = row_sums_problem(p, machine);
  // At a stride oneDNN's kernels for AVX2 lose time.
  const bool is_slow = is_strided(p) && !machine.has_wide_vectors();
  return 10 * row_sums_instructions(rows, machine) <
                 (is_slow ? 11 : 9) * onednn_instructions(rows, machine)
             ? Support::yes()
             : Support::no("vectors of channels are as full");
}

// cpu_planar, for a vector of pixels. Rows are computed with what lies between them.
std::int64_t planar_instructions(const planar::Problem& p) {
  constexpr std::int64_t kCopied = 30;  // of every channel, to a line
  constexpr std::int64_t kWritten = 10;
  const std::int64_t kernel_taps = p.kernel.h * p.kernel.w;
  const std::int64_t between = p.attrs.dilation.w * (p.kernel.w - 1) / p.attrs.stride.w;
  const std::int64_t sums = kernel_taps * p.out_channels * (p.y.w + between) / p.y.w;
  const std::int64_t copies = kCopied * p.attrs.stride.h * p.attrs.stride.w;
  return p.in_channels * (sums + copies) + kWritten * p.out_channels;
}

// oneDNN, for the same pixels: its vectors hold the output channels of one pixel.
std::int64_t onednn_instructions(const planar::Problem& p, DType dtype, const Machine& machine) {
  constexpr std::int64_t kBesides = 10;
  std::int64_t products = p.in_channels;
  if (dtype == DType::kBf16 && machine.has_tiles) products = ceil_div(p.in_channels, 32) * 2;
  if (dtype == DType::kBf16 && machine.has_fast_dot) products = ceil_div(p.in_channels, 2);
  return machine.lanes * (p.kernel.h * p.kernel.w * products + kBesides);
}

bool is_planar_worth_it(const planar::Problem& p, DType dtype, const Machine& machine) {
  // Of shorter rows, too much is computed besides.
  constexpr std::int64_t kShortRow = 16;
  if (p.y.w < kShortRow) return false;
  return 10 * planar_instructions(p) < 9 * onednn_instructions(p, dtype, machine);
}

// Its count is of one pixel, and none of it waits for memory.
bool are_row_sums_faster(const Problem& p, const planar::Problem& turned, const Machine& machine) {
  return 8 * machine.lanes * row_sums_instructions(row_sums_problem(p, machine), machine) <
         5 * planar_instructions(turned);
}

Support takes_planar(const Problem& p, const Machine& machine) {
  if (p.result != p.dtype) return Support::no("only for results in the images' dtype");
  if (!machine.has_vectors()) return Support::no("needs AVX2 or NEON");
  const bool is_forward = p.pass == Pass::kForward;
  const planar::Problem problem = is_forward ? planar::problem_of(p) : planar::turned_problem_of(p);
  if (problem.out_channels > planar::kMostChannels) {
    return Support::no("only for 8 channels and fewer");
  }
  if (!is_forward) {
    if (is_strided(p)) return Support::no("only for gradients at stride 1");
    if (takes_row_sums(p, machine) && are_row_sums_faster(p, problem, machine)) {
      return Support::no("cpu_row_sums is faster");
    }
  }
  if (const Support groups = supports_groups(p); !groups) return groups;
  return is_planar_worth_it(problem, p.dtype, machine) ? Support::yes()
                                                       : Support::no("oneDNN is faster");
}

// --- Weight gradients ---------------------------------------------------------------------------

using grad_weight::Products;

Products products_for(DType dtype, const Machine& machine) {
  if (dtype != DType::kBf16) return Products::kF32;
  if (machine.has_tiles) return Products::kTiles;
  return machine.has_fast_dot ? Products::kPairs : Products::kF32;
}

// Panels of 16 are so empty that other kernels are faster; with dot products, that begins later,
// and with the tile unit later still.
bool are_few_channels(const grad_weight::Problem& p) {
  constexpr std::int64_t kMany = 64;
  const bool joins = joins_columns(p);
  if (p.products == Products::kF32) return std::min(p.in_channels, p.out_channels) < 8;
  if (p.products == Products::kPairs) {
    const std::int64_t in = joins ? p.kernel.w * p.in_channels : p.in_channels;
    return std::min(in, p.out_channels) < 6;
  }
  if (joins) return p.in_channels == 1 && p.out_channels < kMany;
  return p.in_channels < (p.out_channels < grad_weight::kPanel ? 4 : 3);
}

// f32 images that are worth copying: those of enough channels for the multiply-adds to count.
// Without AVX-512 the panels are faster than oneDNN's kernels, which read images where they are.
// With it they are not, but where a kernel of several pixels moves by more than one: there oneDNN's
// take up to twice as long.
bool is_slow_in_place(const Problem& p, const Machine& machine) {
  constexpr std::int64_t kManyChannels = 64;
  return p.dtype == DType::kF32 && std::min(p.y[1], p.x[1]) >= kManyChannels &&
         (!machine.has_wide_vectors() || (taps(p) > 1 && is_strided(p)));
}

Support takes_grad_weight(const Problem& p, const Machine& machine) {
  if (!is_lower(p.dtype) && !is_slow_in_place(p, machine)) {
    return Support::no("f32 images are read in place");
  }
  if (!machine.has_vectors()) return Support::no("needs AVX2 or NEON");
  if (const Support groups = supports_groups(p); !groups) return groups;
  const grad_weight::Problem problem = grad_weight::problem_of(p, products_for(p.dtype, machine));
  return are_few_channels(problem) ? Support::no("too few channels") : Support::yes();
}

// Where oneDNN's kernels are slower, as far as measured: their vectors of output channels must be
// mostly empty for that, and the sums long beside the copies made here. Its bf16 kernels are always
// slower without AMX, and f16 must be widened for them first.
bool is_grad_weight_planar_worth_it(const Problem& p) {
  if (p.dtype == DType::kBf16) return std::min(p.x[1], p.y[1]) < 8;
  if (is_strided(p)) return false;
  if (p.dtype == DType::kF16 && p.x[1] == 1) return true;
  if (taps(p) == 1) return false;
  return p.y[1] < (taps(p) >= 25 ? 8 : 5);
}

Support takes_grad_weight_planar(const Problem& p, const Machine& machine) {
  if (!machine.has_vectors()) return Support::no("needs AVX2 or NEON");
  if (const Support groups = supports_groups(p); !groups) return groups;
  return is_grad_weight_planar_worth_it(p) ? Support::yes() : Support::no("oneDNN is faster");
}

}  // namespace

extern const Method kFullyConnected{"cpu_fully_connected", takes_fully_connected};
extern const Method kIm2col{"cpu_im2col", takes_im2col};
extern const Method kCol2im{"cpu_col2im", takes_col2im};
extern const Method kWinograd{"cpu_winograd", takes_winograd};
extern const Method kPixels{"cpu_pixels", takes_pixels};
extern const Method kPointwise{"cpu_onednn_1x1", takes_pointwise};
extern const Method kDirect{"cpu_direct", takes_direct};
extern const Method kDirectNarrow{"cpu_direct_narrow", takes_direct_narrow};
extern const Method kPlanar{"cpu_planar", takes_planar};
extern const Method kRowSums{"cpu_row_sums", takes_row_sums};
extern const Method kGradWeight{"cpu_grad_weight", takes_grad_weight};
extern const Method kGradWeightPlanar{"cpu_planar", takes_grad_weight_planar};

namespace {

const Method kOneDnn{"cpu_onednn", takes_onednn};

// The method of a kernel in an operation's list; the last kernel of a list computes what is left.
const Method* method_named(std::string_view name, Pass pass) {
  if (pass == Pass::kGradWeight && name == kGradWeightPlanar.name) return &kGradWeightPlanar;
  for (const Method* method :
       {&kFullyConnected, &kIm2col, &kCol2im, &kWinograd, &kPixels, &kPointwise, &kDirect,
        &kDirectNarrow, &kPlanar, &kRowSums, &kGradWeight, &kOneDnn}) {
    if (name == method->name) return method;
  }
  return nullptr;
}

}  // namespace

const char* choose(const KernelList& kernels, const Problem& problem, const Machine& machine) {
  for (const Kernel& kernel : kernels.entries()) {
    const Method* const method = method_named(kernel.name, problem.pass);
    if (method == nullptr || method->takes(problem, machine)) return kernel.name;
  }
  return "reference";
}

}  // namespace mezzo::kernels::conv

// Rotary position embedding: sines and cosines of all positions, then one pass over x.
#include "mezzo/kernels/cuda/element.cuh"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/ops/rope_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// Writes the cosine and the sine of each pair's angle at each position, [positions, pairs, 2].
// Angles are f64: those of f32 would be off by 0.004 radians at position 100,000.
__global__ void angles_kernel(const std::int64_t* positions, std::int64_t count, RopeAttrs attrs,
                              std::int64_t pairs, float2* angles) {
  for (std::int64_t i = grid_first(); i < count * pairs; i += grid_step()) {
    const std::int64_t row = i / pairs;
    const std::int64_t position = (positions != nullptr ? positions[row] : row) + attrs.offset;
    const double exponent = -static_cast<double>(i % pairs) / static_cast<double>(pairs);
    const double angle = static_cast<double>(position) * pow(attrs.theta, exponent);
    const double sine = sin(angle);
    angles[i] = {static_cast<float>(cos(angle)), static_cast<float>(attrs.inverse ? -sine : sine)};
  }
}

template <class T>
__global__ void rotate_kernel(const T* x, const float2* angles, RopeRows rows, bool halves,
                              T* out) {
  for (std::int64_t i = grid_first(); i < rows.count * rows.pairs; i += grid_step()) {
    const std::int64_t row = i / rows.pairs;
    const std::int64_t pair = i % rows.pairs;
    const float2 angle = angles[rows.position_of(row) * rows.pairs + pair];
    const std::int64_t first = row * 2 * rows.pairs + (halves ? pair : 2 * pair);
    const std::int64_t second = first + (halves ? rows.pairs : 1);
    const float a = widen(x[first]);
    const float b = widen(x[second]);
    out[first] = narrow<T>(a * angle.x - b * angle.y);
    out[second] = narrow<T>(b * angle.x + a * angle.y);
  }
}

void run_rope(const KernelArgs& args) {
  const auto& attrs = args.attrs<RopeAttrs>();
  const Tensor x = dense(args.input(0), Format::kContiguous);
  if (x.numel() == 0) return;
  const Tensor positions = args.has(1) ? dense(args.input(1), Format::kContiguous) : Tensor();
  const RopeRows rows =
      rope_rows(x.shape(), attrs.axis, positions.defined() && positions.rank() == 2);
  const Launch launch(x);
  const std::int64_t count = positions.defined() ? positions.numel() : rows.length;
  const Scratch angles(static_cast<std::size_t>(count * rows.pairs) * sizeof(float2),
                       launch.device());
  angles_kernel<<<launch.blocks_for(count * rows.pairs), kThreads, 0, launch.stream()>>>(
      in_or_null<std::int64_t>(positions), count, attrs, rows.pairs, angles.as<float2>());
  check_launch("angles_kernel");
  const int blocks = launch.blocks_for(rows.count * rows.pairs);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    rotate_kernel<<<blocks, kThreads, 0, launch.stream()>>>(
        in<T>(x), angles.as<const float2>(), rows, attrs.pairing == RopePairing::kHalves,
        out<T>(args.output()));
  });
  check_launch("rotate_kernel");
}

Support supports_rope(const KernelArgs& args) {
  return is_vector_dtype(args.input(0).dtype()) ? Support::yes()
                                                : Support::no("only f32, bf16 and f16 are rotated");
}

}  // namespace

extern const KernelList rope{{{{"cuda", supports_rope, run_rope}}}};

}  // namespace mezzo::kernels::cuda

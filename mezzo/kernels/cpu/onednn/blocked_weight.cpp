#include "mezzo/kernels/cpu/onednn/blocked_weight.h"

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/onednn/pack_weight.h"
#include "mezzo/ops/dispatcher/dispatch.h"

namespace mezzo::kernels::onednn {
namespace {

// Reads the blocks and returns the axis of n, or -1 for other kinds of layout. Accepted are [n] and
// [k][n] of f32, [n][2 k] and [k][n][2 k] of bf16.
int read_blocks(const Layout& layout, bool is_bf16, BlockedWeight& weight) {
  const dnnl_dim_t* const axis = layout.block_axes;
  const dnnl_dim_t* const size = layout.block_sizes;
  const int innermost = layout.block_count - (is_bf16 ? 2 : 1);  // index of the block of n's
  if (innermost < 0 || innermost > 1) return -1;
  const auto n_axis = static_cast<int>(axis[innermost]);
  if (n_axis > 1) return -1;
  weight.n_block = size[innermost];
  if (is_bf16) {
    if (size[innermost + 1] != 2 || axis[innermost + 1] != 1 - n_axis) return -1;
    weight.pair = weight.k_block = 2;
  }
  if (innermost == 1) {
    if (axis[0] != 1 - n_axis) return -1;
    weight.k_block *= size[0];
  }
  return n_axis;
}

bool fits_tiles(const BlockedWeight& weight) {
  const std::int64_t tile = weight_tile();
  return weight.n % tile == 0 && weight.n_block % tile == 0 && weight.k % (tile * weight.pair) == 0;
}

}  // namespace

std::optional<BlockedWeight> blocked_weight(const Shape& dims, const Shape& strides,
                                            const Desc& wanted) {
  const Layout layout = layout_of(wanted);
  const bool is_bf16 = layout.type == dnnl_bf16;
  if (dims.rank() != 4 || layout.kind != dnnl_blocked || layout.extra != 0 || layout.offset != 0 ||
      !(is_bf16 || layout.type == dnnl_f32) || !has_vectors() ||
      is_kernel_disabled(Switch::kPack)) {
    return {};
  }
  BlockedWeight weight;
  const int axis = read_blocks(layout, is_bf16, weight);
  if (axis < 0) return {};
  const auto n = static_cast<std::size_t>(axis);
  const std::size_t k = 1 - n;
  const std::int64_t element = is_bf16 ? 2 : 1;  // elements in 32 bits
  weight.n = dims[n];
  weight.k = dims[k];
  weight.h = dims[2];
  weight.w = dims[3];
  weight.padded_n = layout.padded_dims[n];
  weight.from_n = strides[n];
  weight.from_k = strides[k];
  weight.from_h = strides[2];
  weight.from_w = strides[3];
  weight.to_n = layout.strides[n] / element;
  weight.to_k = layout.strides[k] / element;
  weight.to_h = layout.strides[2] / element;
  weight.to_w = layout.strides[3] / element;
  if (layout.padded_dims[k] != dims[k] || !fits_tiles(weight)) return {};
  return weight;
}

}  // namespace mezzo::kernels::onednn

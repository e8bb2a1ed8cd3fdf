// Copies rows of images channel by channel, with their padding (planar_plan.h). Included once per
// instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_PLANAR_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_PLANAR_ROWS_INL_H_
#undef MEZZO_KERNELS_CPU_PLANAR_ROWS_INL_H_
#else
#define MEZZO_KERNELS_CPU_PLANAR_ROWS_INL_H_
#endif

#include <algorithm>
#include <vector>

#include "mezzo/kernels/cpu/conv/planar/planar_plan.h"
#include "mezzo/kernels/cpu/simd/separate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// The rows of channels-last images x.
template <class T>
class PlanarRows {
 public:
  using Plan = kernels::planar::Plan;
  using Chunk = kernels::planar::Chunk;

  // `in_block`: the most channels that are copied at a time.
  PlanarRows(const Plan& plan, std::int64_t in_block, const T* x)
      : plan_(plan), problem_(plan.problem), in_block_(in_block), x_(x) {
    list_columns();
  }

  // Elements of the lines to which one remainder of rows is copied, [remainder of
  // columns][channel].
  std::int64_t lines() const {
    return in_block_ * static_cast<std::int64_t>(columns_.size()) * plan_.line();
  }

  // Where the copy of a channel and a remainder of columns begins among them.
  std::int64_t line_at(std::int64_t column_remainder, std::int64_t channel) const {
    return (column_remainder * in_block_ + channel) * plan_.line();
  }

  // Copies the rows of an image that a chunk reads: those of one remainder, channels [first, end).
  // `to` must be all zeros at first; the padding in it is never written.
  void copy(const Chunk& chunk, std::int64_t image, std::int64_t remainder, std::int64_t first,
            std::int64_t end, float* to) {
    const std::int64_t rows = chunk.rows() + plan_.rows.halo;
    for (std::int64_t r = 0; r < rows; ++r, to += plan_.pitch()) {
      const std::int64_t row =
          (chunk.first_row + r + plan_.rows.first_shift) * problem_.attrs.stride.h + remainder;
      if (row < 0 || row >= problem_.x.h) {
        clear_row(end - first, to);
      } else {
        separate_row(x_ + (image * problem_.x.h + row) * x_row(), first, end, to);
      }
    }
  }

 private:
  // The columns of an input row that have the same remainder, and where the first of them goes.
  struct Columns {
    std::int64_t first = 0, count = 0;
    std::int64_t to = 0;
  };

  std::int64_t x_row() const { return problem_.x.w * problem_.in_channels; }

  void list_columns() {
    const std::int64_t stride = problem_.attrs.stride.w;
    const std::int64_t begin = std::clamp<std::int64_t>(-plan_.cols.first_shift, 0, plan_.pitch());
    for (const std::int64_t remainder : plan_.cols.remainders) {
      const std::int64_t first = (begin + plan_.cols.first_shift) * stride + remainder;
      const std::int64_t inside = std::max<std::int64_t>(problem_.x.w - first + stride - 1, 0);
      columns_.push_back({first, std::min(inside / stride, plan_.pitch() - begin), begin});
    }
  }

  void separate_row(const T* row, std::int64_t first, std::int64_t end, float* to) {
    const T* const limit = x_ + problem_.images * problem_.x.h * x_row();
    const std::int64_t step = problem_.attrs.stride.w * problem_.in_channels;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Columns& columns = columns_[i];
      lines_.clear();
      for (std::int64_t c = 0; c < end - first; ++c) {
        lines_.push_back({to + line_at(static_cast<std::int64_t>(i), c) + columns.to, lanes()});
      }
      separate<T>(
          {row + columns.first * problem_.in_channels, step, columns.count, first, end, limit},
          lines_.data(), 0);
    }
  }

  void clear_row(std::int64_t channels, float* to) const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      for (std::int64_t c = 0; c < channels; ++c) {
        std::fill_n(to + line_at(static_cast<std::int64_t>(i), c), plan_.pitch(), 0.0F);
      }
    }
  }

  const Plan& plan_;
  const kernels::planar::Problem& problem_;
  std::int64_t in_block_;
  const T* x_;
  std::vector<Columns> columns_;
  std::vector<ChannelLine> lines_;
};

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

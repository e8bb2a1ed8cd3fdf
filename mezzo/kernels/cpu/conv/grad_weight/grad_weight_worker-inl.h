// One thread's part of a weight gradient: its copies of images, and the computation on them.
// Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_GRAD_WEIGHT_WORKER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_GRAD_WEIGHT_WORKER_INL_H_
#undef MEZZO_KERNELS_CPU_GRAD_WEIGHT_WORKER_INL_H_
#else
#define MEZZO_KERNELS_CPU_GRAD_WEIGHT_WORKER_INL_H_
#endif

#include <algorithm>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight-inl.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_pack-inl.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_tiles.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::transpose_blocks;
using kernels::grad_weight::Chunk;
using kernels::grad_weight::multiply_tiles;
using kernels::grad_weight::Plan;
using kernels::grad_weight::Plane;
using kernels::grad_weight::Problem;
using kernels::grad_weight::Products;
using kernels::grad_weight::Slot;
using kernels::grad_weight::Tap;
using kernels::grad_weight::TileOperands;
using kernels::grad_weight::TileRun;

struct Panels {
  std::int64_t first = 0, count = 0;
};
// The panels of part `part` of `parts`.
inline Panels panels_of(std::int64_t panels, std::int64_t part, std::int64_t parts) {
  const std::int64_t first = panels * part / parts;
  return {first, panels * (part + 1) / parts - first};
}

// One of the parts into which a plan divides the work.
struct PlanPart {
  PlanPart(const Plan& plan, std::int64_t number)
      : chunks(number / (plan.in_parts * plan.out_parts)),
        in(panels_of(plan.in_panels, number / plan.out_parts % plan.in_parts, plan.in_parts)),
        out(panels_of(plan.out_panels, number % plan.out_parts, plan.out_parts)) {}

  std::int64_t chunks;  // index of the part of the chunks
  Panels in, out;
};

// Computes one part on one thread.
template <class T, class ReadX>
class GradWeightWorker {
 public:
  // `sums`: those of all parts.
  GradWeightWorker(const Plan& plan, const T* grad, const T* x, const ReadX& read_x,
                   const PlanPart& part, float* sums)
      : plan_(plan),
        grad_(grad),
        x_(x),
        read_x_(read_x),
        sums_(sums),
        chunk_part_(part.chunks),
        first_in_(part.in.first),
        in_panels_(part.in.count),
        first_panel_(part.out.first),
        panels_(part.out.count),
        packed_grad_(empty({plan.most_grad(panels_)}, DType::kF32)),
        packed_x_(empty({plan.most_x(in_panels_)}, DType::kF32)),
        joined_(plan.problem) {}

  // Adds the products of a chunk to the sums, or begins them. `next`: the following chunk, or null.
  void add(const Chunk& chunk, bool first, const Chunk* next) {
    pack_x(chunk);
    pack_grad(chunk);
    if (plan_.problem.products == Products::kTiles) {
      multiply_by_tiles(chunk, first);
    } else {
      prefetch(next);
      multiply_by_vectors(chunk, first);
    }
  }

 private:
  bool paired() const { return is_paired(plan_.problem.products); }
  bool tiles() const { return plan_.problem.products == Products::kTiles; }
  float* x_data() const { return packed_x_.template mutable_data<float>(); }
  float* grad_data() const { return packed_grad_.template mutable_data<float>(); }

  // Elements from one slot, or panel, to the next in the copies.
  std::int64_t x_slot(const Chunk& chunk) const { return plan_.plane_pixels(chunk) * kPanel; }
  std::int64_t x_panel(const Chunk& chunk) const { return chunk.slots() * x_slot(chunk); }
  std::int64_t grad_slot(const Chunk& chunk) const { return plan_.grad_pixels(chunk) * kPanel; }
  std::int64_t grad_panel(const Chunk& chunk) const { return chunk.slots() * grad_slot(chunk); }

  void pack_x(const Chunk& chunk) {
    float* out = x_data();
    for (const Plane& plane : plan_.planes) {
      for (std::int64_t slot = 0; slot < chunk.slots(); ++slot) {
        pack_plane(chunk, plane, plan_.slots[static_cast<std::size_t>(chunk.first_slot + slot)],
                   out + slot * x_slot(chunk));
      }
      out += in_panels_ * x_panel(chunk);
    }
  }

  // The input row that a plane's row is copied from, or null outside of the image.
  const T* x_row(const Slot& slot, int half, std::int64_t plane_row, std::int64_t remainder) const {
    const Problem& p = plan_.problem;
    if (slot.image[half] < 0) return nullptr;
    const std::int64_t row =
        (slot.first_row[half] + plane_row + plan_.first_shift_row) * p.attrs.stride.h + remainder;
    if (row < 0 || row >= p.x.h) return nullptr;
    return x_ + (slot.image[half] * p.x.h + row) * p.x_row();
  }

  void pack_plane(const Chunk& chunk, const Plane& plane, const Slot& slot, float* out) {
    const Problem& p = plan_.problem;
    const std::int64_t stride = p.attrs.stride.w;
    // The columns [begin, end) of the plane are columns of the image; the others are padding.
    const std::int64_t shift = -plan_.first_shift_col;
    const std::int64_t begin = std::clamp<std::int64_t>(shift, 0, plan_.pitch);
    const std::int64_t inside = p.x.w > plane.col ? ceil_div(p.x.w - plane.col, stride) : 0;
    const std::int64_t end = std::clamp<std::int64_t>(shift + inside, begin, plan_.pitch);
    const std::int64_t first = (begin - shift) * stride + plane.col;  // column of the image
    const std::int64_t rows = chunk.rows() + plan_.halo;
    const std::int64_t end_channel = (first_in_ + in_panels_) * kPanel;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* a = x_row(slot, 0, chunk.first_row + r, plane.row);
      const T* b = paired() ? x_row(slot, 1, chunk.first_row + r, plane.row) : nullptr;
      for (std::int64_t panel = 0; panel < in_panels_; ++panel) {
        float* to = out + panel * x_panel(chunk) + r * plan_.pitch * kPanel;
        std::fill_n(to, begin * kPanel, 0.0F);
        std::fill_n(to + end * kPanel, (plan_.pitch - end) * kPanel, 0.0F);
      }
      if (p.joined.columns > 0) {
        joined_.pack(a, b, x_panel(chunk), read_x_, out + r * plan_.pitch * kPanel);
        continue;
      }
      const std::int64_t offset = first * p.in_channels;
      const PixelRow<T> row{.a = a != nullptr ? a + offset : nullptr,
                            .b = b != nullptr ? b + offset : nullptr,
                            .pixels = end - begin,
                            .channels = std::min(p.in_channels, end_channel),
                            .step = stride * p.in_channels,
                            .first_channel = first_in_ * kPanel};
      float* const to = out + (r * plan_.pitch + begin) * kPanel;
      pack_row(row, paired(), x_panel(chunk), read_x_, to);
    }
    // Zeros that a tile may read beyond the last row.
    const std::int64_t used = rows * plan_.pitch;
    for (std::int64_t panel = 0; panel < in_panels_; ++panel) {
      std::fill_n(out + panel * x_panel(chunk) + used * kPanel,
                  (plan_.plane_pixels(chunk) - used) * kPanel, 0.0F);
    }
  }

  void pack_grad(const Chunk& chunk) {
    const Problem& p = plan_.problem;
    const std::int64_t pitch = tiles() ? plan_.pitch : p.y.w;
    const std::int64_t channel = first_panel_ * kPanel;
    const std::int64_t channels = std::min(p.out_channels - channel, panels_ * kPanel);
    for (std::int64_t slot = 0; slot < chunk.slots(); ++slot) {
      const Slot& from = plan_.slots[static_cast<std::size_t>(chunk.first_slot + slot)];
      float* out = grad_data() + slot * grad_slot(chunk);
      for (std::int64_t r = 0; r < chunk.rows(); ++r) {
        const T* a = grad_row(from, 0, chunk.first_row + r, channel);
        const T* b = paired() ? grad_row(from, 1, chunk.first_row + r, channel) : nullptr;
        pack_row(PixelRow<T>{a, b, p.y.w, channels, p.out_channels}, paired(), grad_panel(chunk),
                 AsStored(), out + r * pitch * kPanel);
      }
      if (tiles()) clear_gaps(chunk, out);
    }
    if (tiles()) transpose_blocks(grad_data(), panels_ * grad_panel(chunk) / kPanel / kPanel);
  }

  // Clears the gaps between the rows of a slot of the gradient, and after the last one: tiles read
  // them, together with pixels of the input.
  void clear_gaps(const Chunk& chunk, float* slot) {
    const std::int64_t end = plan_.grad_pixels(chunk);
    for (std::int64_t panel = 0; panel < panels_; ++panel, slot += grad_panel(chunk)) {
      for (std::int64_t r = 0; r < chunk.rows(); ++r) {
        const std::int64_t gap = r * plan_.pitch + plan_.problem.y.w;
        const std::int64_t next = r + 1 < chunk.rows() ? (r + 1) * plan_.pitch : end;
        std::fill(slot + gap * kPanel, slot + next * kPanel, 0.0F);
      }
    }
  }

  const T* grad_row(const Slot& slot, int half, std::int64_t row, std::int64_t channel) const {
    const Problem& p = plan_.problem;
    if (slot.image[half] < 0 || row >= slot.rows[half]) return nullptr;
    return grad_ +
           ((slot.image[half] * p.y.h + slot.first_row[half] + row) * p.y.w) * p.out_channels +
           channel;
  }

  // Vector `v` of the part's sums: an input panel and a tap, in memory order. If the sums are the
  // weight itself, the vectors of a tap are contiguous.
  struct Vector {
    std::int64_t panel = 0, tap = 0;
  };
  Vector vector(std::int64_t v) const {
    const auto taps = static_cast<std::int64_t>(plan_.taps.size());
    if (plan_.sums_are_weight()) return {v % in_panels_, v / in_panels_};
    return {v / taps, v % taps};
  }

  // The copy of the input that a vector multiplies.
  const float* x_of(const Chunk& chunk, const Vector& v) const {
    const Tap& tap = plan_.taps[static_cast<std::size_t>(v.tap)];
    return x_data() + (tap.plane * in_panels_ + v.panel) * x_panel(chunk) + tap.offset * kPanel;
  }

  float* sums_of(std::int64_t panel, const Vector& v) const {
    return sums_ + plan_.sums_at(chunk_part_, first_panel_ + panel, first_in_ + v.panel, v.tap);
  }

  // Notes the images of a chunk for prefetching, if there is one: those of which this part copies
  // all channels.
  void prefetch(const Chunk* chunk) {
    asked_.assign(1, Ahead());
    if (chunk == nullptr) return;
    const Problem& p = plan_.problem;
    const auto note = [&](const T* begin, std::int64_t numbers) {
      const auto* const bytes = reinterpret_cast<const char*>(begin);
      asked_.push_back({bytes, bytes + numbers * static_cast<std::int64_t>(sizeof(T))});
    };
    for (std::int64_t i = chunk->first_slot; i < chunk->end_slot; ++i) {
      const Slot& slot = plan_.slots[static_cast<std::size_t>(i)];
      for (const int half : {0, 1}) {
        const std::int64_t rows = std::min(chunk->rows(), slot.rows[half] - chunk->first_row);
        if (rows <= 0) continue;
        if (plan_.out_parts == 1) {
          note(grad_row(slot, half, chunk->first_row, 0), rows * p.y.w * p.out_channels);
        }
        if (plan_.in_parts > 1) continue;
        // The rows before these were read for the preceding chunk.
        const T* const x = x_row(slot, half, chunk->first_row + plan_.halo, 0);
        const T* const end = x_ + (slot.image[half] + 1) * p.x.h * p.x_row();
        if (x == nullptr) continue;
        const std::int64_t numbers = std::min(rows * p.attrs.stride.h * p.x_row(), end - x);
        note(x, numbers);
        if (const T* const beside = read_x_.beside(x)) note(beside, numbers);
      }
    }
  }

  // The memory to prefetch next, perhaps none.
  Ahead& asked() {
    while (asked_.size() > 1 && asked_.back().next >= asked_.back().end) asked_.pop_back();
    return asked_.back();
  }

  void multiply_by_vectors(const Chunk& chunk, bool first) {
    const VectorRun all{.slots = chunk.slots(),
                        .rows = chunk.rows(),
                        .pixels = plan_.problem.y.w,
                        .a_slot = grad_slot(chunk),
                        .a_row = plan_.problem.y.w * kPanel,
                        .b_slot = x_slot(chunk),
                        .b_row = plan_.pitch * kPanel,
                        .c_row = plan_.sum_row(),
                        .first = first};
    for_parts(all.flat(), [&](const VectorRun& part, std::int64_t in_grad, std::int64_t in_x) {
      for_tiles(kMostGroups, 1, [&](std::int64_t v, int groups, std::int64_t panel, int) {
        const float* const a = grad_data() + panel * grad_panel(chunk) + in_grad;
        const float* b[kMostGroups];
        float* c[kMostGroups];
        for (int g = 0; g < groups; ++g) {
          b[g] = x_of(chunk, vector(v + g)) + in_x;
          c[g] = sums_of(panel, vector(v + g));
        }
        Ahead& ahead = asked();
        if (paired()) {
          multiply_panel<true>(groups, part, a, b, c, ahead);
        } else {
          multiply_panel<false>(groups, part, a, b, c, ahead);
        }
      });
    });
  }

  void multiply_by_tiles(const Chunk& chunk, bool first) {
    const TileRun run{.slots = chunk.slots(),
                      .blocks = plan_.grad_pixels(chunk) / kPanel,
                      .a_slot = grad_slot(chunk),
                      .b_slot = x_slot(chunk),
                      .c_row = plan_.sum_row(),
                      .first = first};
    for_tiles(2, 2, [&](std::int64_t v, int groups, std::int64_t panel, int panels) {
      TileOperands o;
      for (int i = 0; i < panels; ++i) o.a[i] = grad_data() + (panel + i) * grad_panel(chunk);
      for (int j = 0; j < groups; ++j) {
        const Vector of = vector(v + j);
        o.b[j] = x_of(chunk, of);
        for (int i = 0; i < panels; ++i) o.c[i][j] = sums_of(panel + i, of);
      }
      multiply_tiles(run, o);
    });
  }

  // Calls body(vector, vectors, panel, panels) for all pairs. The inner loop's side is read once
  // per turn of the outer loop, so it is the side that fits in the second-level cache.
  template <class Body>
  void for_tiles(int most_vectors, int most_panels, const Body& body) const {
    const std::int64_t vectors = in_panels_ * static_cast<std::int64_t>(plan_.taps.size());
    const bool panels_inside =
        panels_ <= in_panels_ * static_cast<std::int64_t>(plan_.planes.size());
    const auto step = [](std::int64_t left, int most) {
      if (left == most + 1 && most > 2) return 2;  // two and two rather than three and one
      return static_cast<int>(std::min<std::int64_t>(left, most));
    };
    const auto for_vectors_of = [&](const auto& inner) {
      for (std::int64_t v = 0; v < vectors;) {
        const int count = step(vectors - v, most_vectors);
        inner(v, count);
        v += count;
      }
    };
    const auto for_panels_of = [&](const auto& inner) {
      for (std::int64_t panel = 0; panel < panels_;) {
        const int count = step(panels_ - panel, most_panels);
        inner(panel, count);
        panel += count;
      }
    };
    if (panels_inside) {
      for_vectors_of([&](std::int64_t v, int count) {
        for_panels_of([&](std::int64_t panel, int panels) { body(v, count, panel, panels); });
      });
    } else {
      for_panels_of([&](std::int64_t panel, int panels) {
        for_vectors_of([&](std::int64_t v, int count) { body(v, count, panel, panels); });
      });
    }
  }

  const Plan& plan_;
  const T* grad_;
  const T* x_;
  ReadX read_x_;
  float* sums_;
  std::int64_t chunk_part_;
  std::int64_t first_in_, in_panels_;  // panels of input channels
  std::int64_t first_panel_, panels_;  // panels of output channels
  Tensor packed_grad_;
  Tensor packed_x_;
  JoinedRows<T> joined_;
  std::vector<Ahead> asked_;
};

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard

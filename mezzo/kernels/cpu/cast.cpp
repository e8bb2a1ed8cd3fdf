// Casts and copies between dtypes and memory layouts.
//
// There are three ways, by what the layouts have in common:
// * one flat pass if the orders agree;
// * rows if the same dimension is contiguous on both sides;
// * square tiles if the output's contiguous elements are strided in the input, and another
//   dimension is contiguous there (row-major to channels-last and back, transposed matrices). A
//   plain loop would touch a new cache line for every element.
#include <algorithm>
#include <cstring>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/cast_rows.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/loops/loop.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr std::int64_t kNarrow = 8;  // rows of at most this many elements are not worth a panel

constexpr std::int64_t kMostBytes = 4;  // per element

// Elements of any dtype, addressed by index.
template <class Byte>
struct Elements {
  Byte* data;
  std::int64_t size;  // bytes per element

  Byte* at(std::int64_t i) const { return data + i * size; }
};

Elements<const std::byte> read(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw_data()),
          static_cast<std::int64_t>(size_of(tensor.dtype()))};
}
Elements<std::byte> written(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_raw_data()),
          static_cast<std::int64_t>(size_of(tensor.dtype()))};
}

class Copy {
 public:
  Copy(const Tensor& in, const Tensor& out)
      : loop_(make_loop<2>(in.shape(), {out.strides(), in.strides()})),
        in_(read(in)),
        out_(written(out)),
        convert_(row_converter(in.dtype(), out.dtype())),
        transpose_(panel_transposer(in.dtype())) {}

  void run() const {
    if (loop_.inner_stride(0) == 1 && loop_.inner_stride(1) == 1) return rows();
    if (loop_.inner_stride(0) == 1) {
      for (std::size_t axis = 0; axis + 1 < loop_.rank(); ++axis) {
        if (loop_.strides[1][axis] != 1 || loop_.sizes[axis] < kNarrow) continue;
        if (loop_.inner() > kNarrow) return tiles(axis);
        if (loop_.strides[0][axis] == loop_.inner()) return narrow_tiles(axis);
      }
    }
    strided();
  }

 private:
  // Rows that are contiguous on both sides.
  void rows() const {
    parallel_for(loop_.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      for_each_run(loop_, begin, end, [&](const auto& at, std::int64_t count) {
        convert_(in_.at(at[1]), out_.at(at[0]), count);
      });
    });
  }

  // All other layouts, through small buffers.
  void strided() const {
    const std::int64_t step_out = loop_.inner_stride(0);
    const std::int64_t step_in = loop_.inner_stride(1);
    parallel_for(loop_.numel(), kElementGrain / 4, [&](std::int64_t begin, std::int64_t end) {
      constexpr std::int64_t kBuffer = 256;
      alignas(64) std::byte from[kBuffer * kMostBytes];
      alignas(64) std::byte to[kBuffer * kMostBytes];
      for_each_run(loop_, begin, end, [&](const auto& at, std::int64_t count) {
        for (std::int64_t first = 0; first < count; first += kBuffer) {
          const std::int64_t n = std::min(kBuffer, count - first);
          copy_strided(in_.size, in_.at(at[1] + first * step_in), step_in, from, 1, n);
          convert_(from, to, n);
          copy_strided(out_.size, to, 1, out_.at(at[0] + first * step_out), step_out, n);
        }
      });
    });
  }

  // The output's contiguous elements are strided in the input, where dimension `axis` is
  // contiguous.
  void tiles(std::size_t axis) const {
    const std::size_t last = loop_.rank() - 1;
    const std::int64_t width = loop_.sizes[last];   // along the output's contiguous dimension
    const std::int64_t height = loop_.sizes[axis];  // along the input's contiguous dimension
    const std::int64_t in_stride = loop_.strides[1][last];
    const std::int64_t out_stride = loop_.strides[0][axis];
    Shape outer = loop_.sizes;
    outer[last] = ceil_div(width, kPanel);
    outer[axis] = ceil_div(height, kTile);
    std::array<Strides, 2> strides = loop_.strides;
    for (Strides& operand : strides) {
      operand[last] *= kPanel;
      operand[axis] *= kTile;
    }
    const std::int64_t grain = kElementGrain / (kTile * kPanel);
    parallel_for(outer.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) std::byte block[kTile * kPanel * kMostBytes];
      const Elements<std::byte> panel{block, in_.size};
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t column = t % outer[last] * kPanel;
        const std::int64_t row = position_along(t, outer, axis) * kTile;
        const std::int64_t w = std::min(kPanel, width - column);
        const std::int64_t h = std::min(kTile, height - row);
        const std::int64_t to = offset_of(t, outer, strides[0]);
        transpose_(in_.at(offset_of(t, outer, strides[1])), in_stride, w, h, block);
        for (std::int64_t r = 0; r < h; ++r) {
          convert_(panel.at(r * kPanel), out_.at(to + r * out_stride), w);
        }
      }
    });
  }

  // tiles() for a few elements per row, and rows of the output without gaps: images of three
  // channels.
  void narrow_tiles(std::size_t axis) const {
    const std::size_t last = loop_.rank() - 1;
    const std::int64_t width = loop_.sizes[last];
    const std::int64_t height = loop_.sizes[axis];
    const std::int64_t in_stride = loop_.strides[1][last];
    constexpr std::int64_t kRows = kTile * kPanel / kNarrow;
    Shape outer = loop_.sizes;
    outer[last] = 1;
    outer[axis] = ceil_div(height, kRows);
    std::array<Strides, 2> strides = loop_.strides;
    for (Strides& operand : strides) operand[axis] *= kRows;
    parallel_for(outer.numel(), kElementGrain / kRows, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) std::byte block[kTile * kPanel * kMostBytes];
      const Elements<std::byte> rows{block, in_.size};
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t row = position_along(t, outer, axis) * kRows;
        const std::int64_t h = std::min(kRows, height - row);
        const std::int64_t from = offset_of(t, outer, strides[1]);
        for (std::int64_t c = 0; c < width; ++c) {
          copy_strided(in_.size, in_.at(from + c * in_stride), 1, rows.at(c), width, h);
        }
        convert_(block, out_.at(offset_of(t, outer, strides[0])), h * width);
      }
    });
  }

  Loop<2> loop_;  // operand 0 is the output, 1 the input
  Elements<const std::byte> in_;
  Elements<std::byte> out_;
  ConvertRow convert_;
  TransposePanel transpose_;
};

void copy_bytes(const Tensor& in, const Tensor& out) {
  const auto* from = static_cast<const char*>(in.raw_data());
  auto* to = static_cast<char*>(out.mutable_raw_data());
  parallel_for(static_cast<std::int64_t>(in.bytes()), 1 << 18,
               [&](std::int64_t begin, std::int64_t end) {
                 std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
               });
}

// Threads begin at multiples of 16 elements, whole vectors.
void convert_flat(const Tensor& in, const Tensor& out) {
  constexpr std::int64_t kGroup = 16;
  const ConvertRow convert = row_converter(in.dtype(), out.dtype());
  const Elements<const std::byte> from = read(in);
  const Elements<std::byte> to = written(out);
  const std::int64_t n = in.numel();
  parallel_for(ceil_div(n, kGroup), kElementGrain / kGroup,
               [&](std::int64_t begin, std::int64_t end) {
                 const std::int64_t first = begin * kGroup;
                 convert(from.at(first), to.at(first), std::min(end * kGroup, n) - first);
               });
}

void run_dense(const KernelArgs& args) {
  const Tensor& in = args.input(0);
  const Tensor& out = args.output();
  if (in.dtype() == out.dtype()) {
    copy_bytes(in, out);
  } else {
    convert_flat(in, out);
  }
}

Support supports_dtypes(const Tensor& in, const Tensor& out) {
  return is_cast_dtype(in.dtype()) && is_cast_dtype(out.dtype())
             ? Support::yes()
             : Support::no("only floats of at most 32 bits are vectorised");
}

Support supports_dense(const KernelArgs& args) {
  const Tensor& in = args.input(0);
  const Tensor& out = args.output();
  if (!same_dense_layout(in, out)) return Support::no("the layouts differ");
  if (in.dtype() == out.dtype()) return Support::yes();
  return supports_dtypes(in, out);
}

void run_strided(const KernelArgs& args) { Copy(args.input(0), args.output()).run(); }

Support supports_strided(const KernelArgs& args) {
  return supports_dtypes(args.input(0), args.output());
}

void copy_plain(const KernelArgs& args) { copy_elements(args.input(0), args.output()); }

constexpr KernelList kCopies{{{{"cpu_dense", supports_dense, run_dense},
                               {"cpu_strided", supports_strided, run_strided},
                               {"cpu_plain", nullptr, copy_plain}}}};

}  // namespace

extern const KernelList cast = kCopies;
extern const KernelList to_format = kCopies;

}  // namespace mezzo::kernels::cpu

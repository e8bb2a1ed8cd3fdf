// Elements that indices choose, and sums at places that indices choose.
#include <cstring>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/integers.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/loops/loop.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/indexing_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

// Strides with 0 for one axis.
Strides without(Strides strides, std::size_t axis) {
  strides[axis] = 0;
  return strides;
}

// A pass over the index by rows of its last axis. Row-major results are written in order.
template <class T>
struct Gather {
  const Tensor& x;
  const Tensor& index;
  std::size_t axis;
  T* out;

  void rows(std::int64_t begin, std::int64_t end) const {
    const Shape& shape = index.shape();
    const std::int64_t width = shape.back();
    const Strides others = without(x.strides(), axis);
    const std::int64_t index_step = index.strides()[shape.rank() - 1];
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t flat = row * width;
      const auto* indices = index.data<std::int64_t>() + offset_of(flat, shape, index.strides());
      const T* from = static_cast<const T*>(x.raw_data()) + offset_of(flat, shape, others);
      if (index_step == 0 && axis + 1 < shape.rank() && x.strides()[shape.rank() - 1] == 1) {
        std::memcpy(out + flat, from + at(indices[0], flat), width * sizeof(T));
      } else {
        copy_row(from, indices, index_step, flat);
      }
    }
  }

 private:
  // The distance to the element with that index.
  std::int64_t at(std::int64_t number, std::int64_t flat) const {
    return checked_index(number, flat, x.shape()[axis], "gather") * x.strides()[axis];
  }

  void copy_row(const T* from, const std::int64_t* indices, std::int64_t index_step,
                std::int64_t flat) const {
    const std::int64_t step = axis + 1 < index.rank() ? x.strides()[index.rank() - 1] : 0;
    for (std::int64_t i = 0; i < index.shape().back(); ++i) {
      out[flat + i] = from[i * step + at(indices[i * index_step], flat + i)];
    }
  }
};

// Elements are moved as unsigned integers of their size.
template <class Visit>
void visit_size(std::size_t bytes, const Visit& visit) {
  switch (bytes) {
    case 1: return visit.template operator()<std::uint8_t>();
    case 2: return visit.template operator()<std::uint16_t>();
    case 4: return visit.template operator()<std::uint32_t>();
    default: return visit.template operator()<std::uint64_t>();
  }
}

void gather_kernel(const KernelArgs& args) {
  const Tensor& index = args.input(1);
  if (index.numel() == 0) return;
  const auto axis = static_cast<std::size_t>(args.attrs<AxisAttrs>().axis);
  const std::int64_t width = index.shape().back();
  visit_size(size_of(args.input(0).dtype()), [&]<class T>() {
    const Gather<T> gather{args.input(0), index, axis,
                           static_cast<T*>(args.output().mutable_raw_data())};
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / width);
    parallel_for(index.numel() / width, grain,
                 [&](std::int64_t begin, std::int64_t end) { gather.rows(begin, end); });
  });
}

// Lines along the axis, a few neighbours at a time. Each line is summed by one thread in the order
// of the indices, so that the bits do not depend on the number of threads.
template <class T, class Sum>
class ScatterAdd {
 public:
  ScatterAdd(const KernelArgs& args, const Tensor& index, const Tensor& source)
      : axis_(static_cast<std::size_t>(args.attrs<AxisAttrs>().axis)),
        index_(index),
        source_(source),
        out_(args.output()),
        lines_(index.shape()) {
    lines_[axis_] = 1;
    const bool is_last = axis_ + 1 == lines_.rank();
    width_ = is_last ? 1 : std::min<std::int64_t>(kMostWidth, lines_.back());
    if (!is_last) {
      last_ = lines_.back();
      lines_.back() = ceil_div(last_, width_);
    }
  }

  void run() const {
    const std::int64_t length = out_.shape()[axis_] + index_.shape()[axis_];
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (length * width_));
    parallel_for(lines_.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<Sum> sums(static_cast<std::size_t>(out_.shape()[axis_] * width_));
      for (std::int64_t line = begin; line < end; ++line) add_lines(line, sums.data());
    });
  }

 private:
  static constexpr std::int64_t kMostWidth = 16;

  // Adds up the lines of group `group`.
  void add_lines(std::int64_t group, Sum* sums) const {
    Strides index_steps = index_.strides();
    Strides out_steps = out_.strides();
    const bool is_last = axis_ + 1 == lines_.rank();
    if (!is_last) {
      index_steps[lines_.rank() - 1] *= width_;
      out_steps[lines_.rank() - 1] *= width_;
    }
    const std::int64_t first = is_last ? 0 : group % lines_.back() * width_;
    const std::int64_t width = is_last ? 1 : std::min(width_, last_ - first);
    const std::int64_t at = offset_of(group, lines_, index_steps);
    T* out = out_.mutable_data<T>() + offset_of(group, lines_, out_steps);
    const std::int64_t size = out_.shape()[axis_];
    const std::int64_t step = out_.strides()[axis_];
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t c = 0; c < width; ++c) {
        sums[i * width + c] = static_cast<Sum>(out[i * step + c]);
      }
    }
    add_sources(at, width, sums);
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t c = 0; c < width; ++c) out[i * step + c] = T(sums[i * width + c]);
    }
  }

  // Index and source are dense and have the same shape.
  void add_sources(std::int64_t at, std::int64_t width, Sum* sums) const {
    const auto* indices = index_.data<std::int64_t>();
    const T* values = source_.data<T>();
    const std::int64_t step = index_.strides()[axis_];
    for (std::int64_t j = 0; j < index_.shape()[axis_]; ++j) {
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t i = at + j * step + c;
        const std::int64_t to = checked_index(indices[i], i, out_.shape()[axis_], "scatter_add");
        sums[to * width + c] += static_cast<Sum>(values[i]);
      }
    }
  }

  std::size_t axis_;
  const Tensor& index_;
  const Tensor& source_;
  const Tensor& out_;
  Shape lines_;  // with size 1 along the axis, and groups of lines instead of the last axis
  std::int64_t width_ = 1;
  std::int64_t last_ = 1;
};

template <class T, class Sum>
void scatter_add_as(const KernelArgs& args) {
  convert_into(args.input(0), args.output());
  const Tensor index = dense(args.input(1), Format::kContiguous);
  const Tensor source = dense(args.input(2), Format::kContiguous);
  if (index.numel() > 0) ScatterAdd<T, Sum>(args, index, source).run();
}

void scatter_add_kernel(const KernelArgs& args) {
  visit_vector_dtype(args.input(0).dtype(), [&]<class T>() { scatter_add_as<T, float>(args); });
}

// Unsigned sums wrap around where signed ones would be undefined.
void scatter_add_integers(const KernelArgs& args) {
  visit_integer_dtype(args.input(0).dtype(),
                      [&]<class T>() { scatter_add_as<T, std::uint64_t>(args); });
}

Support supports_floats(const KernelArgs& args) {
  return is_vector_dtype(args.input(0).dtype()) ? Support::yes()
                                                : Support::no("only f32, bf16 and f16");
}

}  // namespace

extern const KernelList gather{{{{"cpu_copy", nullptr, gather_kernel}}}};
extern const KernelList scatter_add{{{{"cpu_plain", supports_floats, scatter_add_kernel},
                                      {"cpu_integer", integers_only, scatter_add_integers}}}};

}  // namespace mezzo::kernels::cpu

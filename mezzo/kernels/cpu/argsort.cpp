// Sorting along an axis: every line by one thread.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/integers.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/argsort_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

// A number whose order is that of the elements: unsigned integers are compared faster than pairs of
// floats, of which NaN is one case and 0 and -0 another.
template <class T>
std::uint64_t key_of(T element) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(element)) ^ std::uint64_t{1} << 63U;
  } else {
    const float value = static_cast<float>(element) + 0.0F;  // -0 becomes 0
    if (std::isnan(value)) return 0xffffffffU;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
  }
}

struct Keyed {
  std::uint64_t key;
  std::int64_t index;
  bool operator<(const Keyed& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

template <class T>
void sort_line(const T* x, std::int64_t size, std::int64_t inner, const ArgsortAttrs& attrs,
               std::vector<Keyed>& line, std::int64_t* out) {
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint64_t key = key_of(x[i * inner]);
    line[static_cast<std::size_t>(i)] = {attrs.descending ? ~key : key, i};
  }
  const auto end = line.begin() + attrs.count;
  // Indices make all elements different, so that every algorithm gives the same order.
  if (attrs.count < size) std::nth_element(line.begin(), end, line.end());
  std::sort(line.begin(), end);
  for (std::int64_t i = 0; i < attrs.count; ++i) {
    out[i * inner] = line[static_cast<std::size_t>(i)].index;
  }
}

template <class T>
void sort_lines(const KernelArgs& args) {
  const auto& attrs = args.attrs<ArgsortAttrs>();
  const Tensor x = dense(args.input(0), Format::kContiguous);
  if (x.numel() == 0 || attrs.count == 0) return;
  const auto axis = static_cast<std::size_t>(attrs.axis);
  const std::int64_t size = x.shape()[axis];
  const std::int64_t inner = strides_for(x.shape(), Format::kContiguous)[axis];
  const T* from = x.data<T>();
  auto* to = args.output().mutable_data<std::int64_t>();
  constexpr std::int64_t kGrain = 2048;  // elements: each takes as long as ten of a plain loop
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / size);
  parallel_for(x.numel() / size, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Keyed> line(static_cast<std::size_t>(size));
    for (std::int64_t i = begin; i < end; ++i) {
      sort_line(from + i / inner * size * inner + i % inner, size, inner, attrs, line,
                to + i / inner * attrs.count * inner + i % inner);
    }
  });
}

void argsort_floats(const KernelArgs& args) {
  visit_vector_dtype(args.input(0).dtype(), [&]<class T>() { sort_lines<T>(args); });
}

void argsort_integers(const KernelArgs& args) {
  visit_integer_dtype(args.input(0).dtype(), [&]<class T>() { sort_lines<T>(args); });
}

}  // namespace

extern const KernelList argsort{{{{"cpu_plain", vector_dtypes_only, argsort_floats},
                                  {"cpu_integer", integers_only, argsort_integers}}}};

}  // namespace mezzo::kernels::cpu

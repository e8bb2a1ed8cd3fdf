// Comparisons with broadcasting over any strides: 16-bit values as f32, integers as they are.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/compare.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/dense_rows.h"
#include "mezzo/kernels/cpu/loops/integers.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/ops/compare_attrs.h"

namespace mezzo::kernels {

// answers[i] = whether the relation holds between a[i] and b[i].
using CompareRow = void (*)(Relation relation, const void* a, const void* b, void* answers,
                            std::int64_t count);
// Compares a row with one number.
using CompareRowToNumber = void (*)(Relation relation, const void* x, float number, void* answers,
                                    std::int64_t count);

}  // namespace mezzo::kernels

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using U8 = hn::Rebind<std::uint8_t, F32>;

HWY_INLINE hn::Mask<F32> holds_for(Relation relation, F32Vec a, F32Vec b) {
  switch (relation) {
    case Relation::kEq: return hn::Eq(a, b);
    // Not Ne(), which is false for NaN.
    case Relation::kNe: return hn::Not(hn::Eq(a, b));
    case Relation::kLt: return hn::Lt(a, b);
    case Relation::kLe: return hn::Le(a, b);
    case Relation::kGt: return hn::Gt(a, b);
    default: return hn::Ge(a, b);
  }
}

HWY_INLINE void store_answers(hn::Mask<F32> mask, std::uint8_t* out) {
  const auto ones = hn::IfThenElseZero(hn::RebindMask(U32(), mask), hn::Set(U32(), 1));
  hn::StoreU(hn::TruncateTo(U8(), ones), U8(), out);
}

// b(i) and b(i, n) are the vectors to compare with: whole ones, and the first n lanes.
template <class T, class Other>
HWY_INLINE void compare_row(Relation relation, const T* a, const Other& b, std::uint8_t* out,
                            std::int64_t n) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= n; i += step) store_answers(holds_for(relation, load(a + i), b(i)), out + i);
  if (i == n) return;
  std::uint8_t answers[kMaxLanes];
  store_answers(holds_for(relation, load_part(a + i, n - i), b(i, n - i)), answers);
  std::memcpy(out + i, answers, part_bytes<std::uint8_t>(n - i));
}

template <class T>
struct Neighbours {
  const T* p;
  HWY_INLINE F32Vec operator()(std::int64_t i) const { return load(p + i); }
  HWY_INLINE F32Vec operator()(std::int64_t i, std::int64_t n) const { return load_part(p + i, n); }
};
struct OneNumber {
  float number;
  HWY_INLINE F32Vec operator()(std::int64_t /*i*/) const { return hn::Set(F32(), number); }
  HWY_INLINE F32Vec operator()(std::int64_t i, std::int64_t /*n*/) const { return (*this)(i); }
};

template <class T>
void compare_rows(Relation relation, const void* a, const void* b, void* out, std::int64_t n) {
  compare_row(relation, static_cast<const T*>(a), Neighbours<T>{static_cast<const T*>(b)},
              static_cast<std::uint8_t*>(out), n);
}

template <class T>
void compare_rows_to_number(Relation relation, const void* x, float number, void* out,
                            std::int64_t n) {
  compare_row(relation, static_cast<const T*>(x), OneNumber{number},
              static_cast<std::uint8_t*>(out), n);
}

}  // namespace

kernels::CompareRow compare_row_of(DType dtype) {
  kernels::CompareRow row = nullptr;
  kernels::visit_vector_dtype(dtype, [&]<class T>() { row = compare_rows<T>; });
  return row;
}

kernels::CompareRowToNumber compare_row_to_number_of(DType dtype) {
  kernels::CompareRowToNumber row = nullptr;
  kernels::visit_vector_dtype(dtype, [&]<class T>() { row = compare_rows_to_number<T>; });
  return row;
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(compare_row_of);
HWY_EXPORT(compare_row_to_number_of);

template <class Row>
void for_pairs(const KernelArgs& args, const Row& row) {
  const Tensor& out = args.output();
  const Tensor& a = args.input(0);
  const Tensor& b = args.input(1);
  const Shape& shape = out.shape();
  const auto loop = make_loop<3>(
      shape, {out.strides(), broadcast_strides(a, shape), broadcast_strides(b, shape)});
  for_dense_rows<3>(loop, {written_memory_of(out), memory_of(a), memory_of(b)}, row);
}

template <class Row>
void for_numbers(const KernelArgs& args, const Row& row) {
  const Tensor& out = args.output();
  const Tensor& x = args.input(0);
  const auto loop = make_loop<2>(out.shape(), {out.strides(), x.strides()});
  for_dense_rows<2>(loop, {written_memory_of(out), memory_of(x)}, row);
}

void compare_floats(const KernelArgs& args) {
  const Relation relation = args.attrs<CompareAttrs>().relation;
  const CompareRow row = HWY_DYNAMIC_DISPATCH(compare_row_of)(args.input(0).dtype());
  for_pairs(args, [=](const auto& rows, std::int64_t count) {
    row(relation, rows[1], rows[2], rows[0], count);
  });
}

void compare_floats_to_number(const KernelArgs& args) {
  const auto& attrs = args.attrs<CompareNumberAttrs>();
  const auto number = static_cast<float>(attrs.number);
  const CompareRowToNumber row =
      HWY_DYNAMIC_DISPATCH(compare_row_to_number_of)(args.input(0).dtype());
  for_numbers(args, [&, number](const auto& rows, std::int64_t count) {
    row(attrs.relation, rows[1], number, rows[0], count);
  });
}

// Bools too, which are bytes of 0 and 1.
void compare_integers(const KernelArgs& args) {
  const Relation relation = args.attrs<CompareAttrs>().relation;
  visit_integer_dtype(args.input(0).dtype(), [&]<class T>() {
    for_pairs(args, [=](const auto& rows, std::int64_t count) {
      const auto* a = reinterpret_cast<const T*>(rows[1]);
      const auto* b = reinterpret_cast<const T*>(rows[2]);
      for (std::int64_t i = 0; i < count; ++i) {
        rows[0][i] = std::byte{holds(relation, a[i], b[i])};
      }
    });
  });
}

void compare_integers_to_number(const KernelArgs& args) {
  const auto [relation, number] = args.attrs<CompareNumberAttrs>();
  visit_integer_dtype(args.input(0).dtype(), [&, r = relation, to = number]<class T>() {
    for_numbers(args, [=](const auto& rows, std::int64_t count) {
      const auto* x = reinterpret_cast<const T*>(rows[1]);
      for (std::int64_t i = 0; i < count; ++i) {
        rows[0][i] = std::byte{holds(r, static_cast<double>(x[i]), to)};
      }
    });
  });
}

Support no_floats(const KernelArgs& args) {
  return is_floating(args.input(0).dtype()) ? Support::no("only integers and bools are compared")
                                            : Support::yes();
}

}  // namespace

extern const KernelList compare{{{{"cpu_simd", vector_dtypes_only, compare_floats},
                                  {"cpu_integer", no_floats, compare_integers}}}};
extern const KernelList compare_number{{{{"cpu_simd", vector_dtypes_only, compare_floats_to_number},
                                         {"cpu_integer", no_floats, compare_integers_to_number}}}};

}  // namespace mezzo::kernels::cpu
#endif

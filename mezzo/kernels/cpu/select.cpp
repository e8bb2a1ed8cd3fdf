// Choosing between elements by masks, with broadcasting over any strides. Elements are moved as
// they are, whatever their dtype.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/select.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/dense_rows.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/ops/select_attrs.h"

namespace mezzo::kernels {

// rows: the output and three operands.
using SelectRow = void (*)(const std::array<std::byte*, 4>& rows, std::int64_t count);

}  // namespace mezzo::kernels

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

// out = mask ? a : b, for elements of the size of T.
template <class T>
void choose_row(const std::array<std::byte*, 4>& rows, std::int64_t n) {
  auto* out = reinterpret_cast<T*>(rows[0]);
  const auto* mask = reinterpret_cast<const std::uint8_t*>(rows[1]);
  const auto* a = reinterpret_cast<const T*>(rows[2]);
  const auto* b = reinterpret_cast<const T*>(rows[3]);
  std::int64_t i = 0;
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {  // the sizes in nearly all calls
    const hn::ScalableTag<T> d;
    const hn::Rebind<std::uint8_t, decltype(d)> bytes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(d));
    for (; i + step <= n; i += step) {
      const auto chosen = hn::PromoteTo(d, hn::LoadU(bytes, mask + i));
      hn::StoreU(
          hn::IfThenElse(hn::Ne(chosen, hn::Zero(d)), hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d,
          out + i);
    }
  }
  for (; i < n; ++i) out[i] = mask[i] != 0 ? a[i] : b[i];
}

HWY_INLINE F32Vec larger_grad(F32Vec grad, F32Vec a, F32Vec b) {
  const auto half = hn::Mul(grad, hn::Set(F32(), 0.5F));
  return hn::IfThenElse(hn::Eq(a, b), half, hn::IfThenZeroElse(hn::Lt(a, b), grad));
}

template <class T>
void maximum_grad_row(const std::array<std::byte*, 4>& rows, std::int64_t n) {
  auto* out = reinterpret_cast<T*>(rows[0]);
  const auto* grad = reinterpret_cast<const T*>(rows[1]);
  const auto* a = reinterpret_cast<const T*>(rows[2]);
  const auto* b = reinterpret_cast<const T*>(rows[3]);
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= n; i += step) {
    store(larger_grad(load(grad + i), load(a + i), load(b + i)), out + i);
  }
  if (i == n) return;
  const std::int64_t rest = n - i;
  store_part(larger_grad(load_part(grad + i, rest), load_part(a + i, rest), load_part(b + i, rest)),
             out + i, rest);
}

}  // namespace

kernels::SelectRow choose_row_of(std::size_t size) {
  switch (size) {
    case 1: return choose_row<std::uint8_t>;
    case 2: return choose_row<std::uint16_t>;
    case 4: return choose_row<std::uint32_t>;
    default: return choose_row<std::uint64_t>;
  }
}

kernels::SelectRow maximum_grad_row_of(DType dtype) {
  kernels::SelectRow row = nullptr;
  kernels::visit_vector_dtype(dtype, [&]<class T>() { row = maximum_grad_row<T>; });
  return row;
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(choose_row_of);
HWY_EXPORT(maximum_grad_row_of);

struct Side {
  OperandMemory memory;
  Strides strides;
};

// The memory of a tensor, and the strides with which it broadcasts to the shape.
Side side_of(const Tensor& tensor, const Shape& shape) {
  return {memory_of(tensor), broadcast_strides(tensor, shape)};
}

void select(const Tensor& out, const std::array<Side, 3>& sides, SelectRow row) {
  const auto& [first, a, b] = sides;
  const auto loop = make_loop<4>(out.shape(), {out.strides(), first.strides, a.strides, b.strides});
  for_dense_rows<4>(loop, {written_memory_of(out), first.memory, a.memory, b.memory}, row);
}

// Selects from the three inputs.
void select_of(const KernelArgs& args, SelectRow row) {
  const Shape& shape = args.output().shape();
  select(
      args.output(),
      {side_of(args.input(0), shape), side_of(args.input(1), shape), side_of(args.input(2), shape)},
      row);
}

void where_mask(const KernelArgs& args) {
  select_of(args, HWY_DYNAMIC_DISPATCH(choose_row_of)(size_of(args.output().dtype())));
}

void fill_masked(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Shape& shape = out.shape();
  const auto& attrs = args.attrs<MaskedFillAttrs>();
  auto number = as_element(attrs.number, args.input(0).dtype(), out.dtype());
  const Side filling{{number.data(), static_cast<std::int64_t>(size_of(out.dtype()))},
                     Shape::filled(shape.rank(), 0)};
  const Side x = side_of(args.input(0), shape);
  select(out, {side_of(args.input(1), shape), attrs.where ? filling : x, attrs.where ? x : filling},
         HWY_DYNAMIC_DISPATCH(choose_row_of)(size_of(out.dtype())));
}

void grad_of_larger(const KernelArgs& args) {
  select_of(args, HWY_DYNAMIC_DISPATCH(maximum_grad_row_of)(args.output().dtype()));
}

}  // namespace

extern const KernelList where{{{{"cpu_simd", nullptr, where_mask}}}};
extern const KernelList masked_fill{{{{"cpu_simd", nullptr, fill_masked}}}};
extern const KernelList maximum_grad = simd_kernel(grad_of_larger);

}  // namespace mezzo::kernels::cpu
#endif

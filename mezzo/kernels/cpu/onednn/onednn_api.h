// The differences between the interfaces of oneDNN 2.6 and oneDNN 3; all else is the same for both.
//
// oneDNN 2 describes an operation first, and a primitive by that. oneDNN 3 takes the operation's
// arguments between the engine and the attributes. Its memory descriptions are handles: fields are
// queried one by one, and a refused description is a null handle.
#pragma once

#include <cstdint>

#include <dnnl.hpp>

#define MEZZO_ONEDNN_3 (DNNL_VERSION_MAJOR >= 3)

namespace mezzo::kernels::onednn {

// The description of a primitive P; `arguments` are those of its operation. It is false if oneDNN
// has no such primitive here. What oneDNN considers a mistake may be thrown as a dnnl::error.
template <class P, class... Arguments>
typename P::primitive_desc describe_primitive(const dnnl::engine& engine,
                                              const dnnl::primitive_attr& attributes,
                                              const Arguments&... arguments) {
#if MEZZO_ONEDNN_3
  return {engine, arguments..., attributes, /*allow_empty=*/true};
#else
  return {typename P::desc(arguments...), attributes, engine, /*allow_empty=*/true};
#endif
}

// describe_primitive() for a gradient, which needs the description of its forward pass.
template <class P, class Forward, class... Arguments>
typename P::primitive_desc describe_gradient(const dnnl::engine& engine,
                                             const dnnl::primitive_attr& attributes,
                                             const Forward& forward,
                                             const Arguments&... arguments) {
#if MEZZO_ONEDNN_3
  return {engine, arguments..., forward, attributes, /*allow_empty=*/true};
#else
  return {typename P::desc(arguments...), attributes, engine, forward, /*allow_empty=*/true};
#endif
}

// Batch norm of x and its gradient. The result and the gradient have the layout of x.
inline dnnl::batch_normalization_forward::primitive_desc describe_norm(
    const dnnl::engine& engine, dnnl::prop_kind kind, const dnnl::memory::desc& x, float eps,
    dnnl::normalization_flags flags) {
#if MEZZO_ONEDNN_3
  return {engine, kind, x, x, eps, flags};
#else
  return {{kind, x, eps, flags}, engine};
#endif
}

// The gradient does not depend on the shift; oneDNN 2 wants it as an argument, and oneDNN 3 refuses
// it.
inline constexpr bool kNormGradientReadsShift = !MEZZO_ONEDNN_3;

inline dnnl::batch_normalization_backward::primitive_desc describe_norm_gradient(
    const dnnl::engine& engine, const dnnl::batch_normalization_forward::primitive_desc& forward,
    const dnnl::memory::desc& x, float eps, dnnl::normalization_flags flags) {
  const auto kind = dnnl::prop_kind::backward;
#if MEZZO_ONEDNN_3
  return {engine, kind, x, x, x, eps, flags, forward};
#else
  return {{kind, x, x, eps, flags}, engine, forward};
#endif
}

// A description of `dims` at `strides`, or one that is_zero() if oneDNN refuses the strides.
inline dnnl::memory::desc describe_or_zero(const dnnl::memory::dims& dims,
                                           dnnl::memory::data_type type,
                                           const dnnl::memory::dims& strides) {
  const dnnl::memory::desc desc(dims, type, strides, /*allow_empty=*/true);
#if MEZZO_ONEDNN_3
  // A null handle is not zero: is_zero() would throw "object is not initialized".
  if (desc.get(/*allow_empty=*/true) == nullptr) return {};
#endif
  return desc;
}

// The fields of a description, without a copy: valid as long as the description. Arrays have `rank`
// elements, those of blocks `block_count`, as in oneDNN's dnnl_blocking_desc_t.
struct Layout {
  dnnl_data_type_t type = dnnl_data_type_undef;
  dnnl_format_kind_t kind = dnnl_format_kind_undef;
  int rank = 0;
  dnnl_dim_t offset = 0;
  std::uint64_t extra = 0;  // flags of int8 layouts, which oneDNN 3 does not show
  const dnnl_dim_t* dims = nullptr;
  const dnnl_dim_t* padded_dims = nullptr;
  // The remaining fields are for dnnl_blocked.
  const dnnl_dim_t* strides = nullptr;
  int block_count = 0;
  const dnnl_dim_t* block_axes = nullptr;
  const dnnl_dim_t* block_sizes = nullptr;
};

#if MEZZO_ONEDNN_3
inline Layout layout_of(const dnnl::memory::desc& desc) {
  const auto ask = [&](dnnl_query_t what, void* answer) {
    dnnl::error::wrap_c_api(dnnl_memory_desc_query(desc.get(), what, answer),
                            "could not ask a description of memory for its layout");
  };
  const auto array = [&](dnnl_query_t what) {
    const dnnl_dims_t* numbers = nullptr;
    ask(what, static_cast<void*>(&numbers));
    return &(*numbers)[0];
  };
  Layout layout;
  ask(dnnl_query_data_type, &layout.type);
  ask(dnnl_query_format_kind, &layout.kind);
  ask(dnnl_query_ndims_s32, &layout.rank);
  ask(dnnl_query_submemory_offset_s64, &layout.offset);
  layout.dims = array(dnnl_query_dims);
  layout.padded_dims = array(dnnl_query_padded_dims);
  if (layout.kind != dnnl_blocked) return layout;
  layout.strides = array(dnnl_query_strides);
  ask(dnnl_query_inner_nblks_s32, &layout.block_count);
  layout.block_axes = array(dnnl_query_inner_idxs);
  layout.block_sizes = array(dnnl_query_inner_blks);
  return layout;
}
#else
inline Layout layout_of(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& md = desc.data;
  const dnnl_blocking_desc_t& blocks = md.format_desc.blocking;
  return {md.data_type,       md.format_kind,    md.ndims,         md.offset0,
          md.extra.flags,     md.dims,           md.padded_dims,   blocks.strides,
          blocks.inner_nblks, blocks.inner_idxs, blocks.inner_blks};
}
#endif
Layout layout_of(dnnl::memory::desc&& desc) = delete;  // the pointers would outlive it

}  // namespace mezzo::kernels::onednn

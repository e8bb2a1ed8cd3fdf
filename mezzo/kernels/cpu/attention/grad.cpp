#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/attention/grad.cpp"
#include "mezzo/kernels/cpu/attention/grad.h"

#include <hwy/foreach_target.h>

#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/attention/grad_worker-inl.h"
#include "mezzo/kernels/cpu/attention/work.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {
namespace {

// A call of the gradient, whose units run in parallel.
template <class T, class Products>
struct GradCall {
  const Problem& problem;
  const GradTensors& tensors;
  const Products& products;

  // Runs units, of which unit(i) is number i.
  template <class Unit>
  void run_units(Gradients what, std::int64_t units, const Unit& unit) const {
    using Worker = GradWorker<T, Products>;
    const AttentionSizes& sizes = problem.sizes;
    const std::int64_t key_tiles = what == Gradients::kKeys ? 1 : problem.key_tiles();
    Room counted;
    Worker(problem, tensors, products, what, key_tiles, counted);
    const double work = static_cast<double>(sizes.batch * sizes.heads) *
                        static_cast<double>(3 * sizes.features + 2 * sizes.values) *
                        sizes.scores(problem.attrs.causal);
    const std::int64_t grain = kernels::attention::grain_of(units, work);
    parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end) {
      [[maybe_unused]] const auto registers = products.registers();
      const Tensor memory = scratch({counted.used()}, DType::kF32);
      Room room(memory.mutable_data<float>());
      Worker worker(problem, tensors, products, what, key_tiles, room);
      for (std::int64_t i = begin; i < end; ++i) worker.run(unit(i));
    });
  }
};

// Whether a thread for each head of keys keeps all threads busy: dividing heads takes 7 products
// instead of 5.
bool has_heads_enough(std::int64_t heads) {
  const std::int64_t threads = num_threads();
  const std::int64_t turns = ceil_div(heads, threads);
  return 5 * turns * threads <= 7 * heads;
}

template <class T, class Products>
void grad_of(const KernelArgs& args, const Products& products) {
  const Problem problem(args, AttentionGradInput::kQ, AttentionGradInput::kStart);
  const GradTensors tensors(args);
  const GradCall<T, Products> call{problem, tensors, products};
  const AttentionSizes& s = problem.sizes;
  const std::int64_t group = s.group();
  const std::int64_t query_tiles = problem.query_tiles();
  const std::int64_t key_tiles = problem.key_tiles();
  if (has_heads_enough(s.batch * s.key_heads)) {
    call.run_units(Gradients::kAll, s.batch * s.key_heads, [&](std::int64_t i) -> GradUnit {
      return {i / s.key_heads, i % s.key_heads * group, group, 0, query_tiles, 0, key_tiles};
    });
    return;
  }
  using kernels::attention::from_both_ends;
  call.run_units(Gradients::kQueries, s.batch * s.heads * query_tiles,
                 [&](std::int64_t i) -> GradUnit {
                   const std::int64_t head = i / query_tiles;
                   const std::int64_t tile = from_both_ends(i % query_tiles, query_tiles);
                   return {head / s.heads, head % s.heads, 1, tile, 1, 0, key_tiles};
                 });
  call.run_units(Gradients::kKeys, s.batch * s.key_heads * key_tiles,
                 [&](std::int64_t i) -> GradUnit {
                   const std::int64_t head = i / key_tiles;
                   const std::int64_t tile = from_both_ends(i % key_tiles, key_tiles);
                   const std::int64_t first = head % s.key_heads * group;
                   return {head / s.key_heads, first, group, 0, query_tiles, tile, 1};
                 });
}

}  // namespace
}  // namespace mezzo::HWY_NAMESPACE::attention_tiles

namespace mezzo::HWY_NAMESPACE {

void attention_grad(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(0).dtype(), [&]<class T>() {
    attention_tiles::grad_of<T>(args, attention_tiles::F32Products());
  });
}

void attention_grad_dots(const KernelArgs& args) {
  if constexpr (attention_tiles::kMayHaveDots) {
    attention_tiles::grad_of<BFloat16>(args, attention_tiles::DotProducts());
  } else {
    attention_grad(args);
  }
}

void attention_grad_tiles(const KernelArgs& args, const kernels::attention::TileUnit& unit) {
  if constexpr (attention_tiles::kMayHaveTiles) {
    attention_tiles::grad_of<BFloat16>(args, attention_tiles::TileProducts{unit});
  } else {
    attention_grad(args);
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::attention {

HWY_EXPORT(attention_grad);
HWY_EXPORT(attention_grad_dots);
HWY_EXPORT(attention_grad_tiles);

void run_grad(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(attention_grad)(args); }

void run_grad_dots(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(attention_grad_dots)(args); }

void run_grad_tiles(const KernelArgs& args) { run_grad_on(tile_unit(), args); }

void run_grad_on(const TileUnit& unit, const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(attention_grad_tiles)(args, unit);
}

}  // namespace mezzo::kernels::attention
#endif

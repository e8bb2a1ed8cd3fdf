#include "mezzo/kernels/cpu/conv/widened.h"

#include <algorithm>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/cache_sizes.h"
#include "mezzo/kernels/cpu/onednn/onednn.h"

namespace mezzo::kernels::conv {
namespace {

// The images [begin, end) of a batch, in the same memory.
Tensor images_of(const Tensor& batch, std::int64_t begin, std::int64_t end) {
  Shape shape = batch.shape();
  shape[0] = end - begin;
  const std::int64_t offset = batch.offset() + begin * batch.strides()[0];
  return Tensor(
      make_ref<TensorImpl>(batch.storage(), offset, shape, batch.strides(), batch.dtype()));
}

// The number of parts, of about equal size, in which a batch is computed.
std::int64_t parts_of(const Tensor& from, const Tensor& to) {
  // Bytes of copies per thread: its second-level cache plus its part of the third. Parts of 4 MB
  // are as fast, but show in a step's peak memory.
  constexpr std::int64_t kBytes = kCachesWithTiles.second + kCachesWithTiles.third_part;
  const std::int64_t copies =
      (from.numel() + to.numel()) * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t most = kBytes * num_threads();
  return std::min(from.size(0), ceil_div(copies, most));
}

}  // namespace

void run_widened_images(const KernelArgs& args, void (*run)(const KernelArgs&)) {
  const std::int64_t images = args.input(0).size(0);
  const std::int64_t parts = parts_of(args.input(0), args.output());
  if (parts <= 1) return onednn::run_widened(args, run);
  std::vector<Tensor> inputs;
  for (const Tensor* input : args.inputs) {
    const bool is_batch = inputs.empty();
    inputs.push_back(is_batch || !input->defined() ? *input : onednn::as_f32(*input));
  }
  std::vector<const Tensor*> pointers;
  pointers.reserve(inputs.size());
  for (const Tensor& input : inputs) pointers.push_back(&input);
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = images * part / parts;
    const std::int64_t end = images * (part + 1) / parts;
    const Tensor from = images_of(args.input(0), begin, end);
    Tensor to = images_of(args.output(), begin, end);
    pointers[0] = &from;
    onednn::run_widened({pointers, {&to, 1}, args.attributes}, run);
  }
}

}  // namespace mezzo::kernels::conv

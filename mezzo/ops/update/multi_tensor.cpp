#include "mezzo/ops/update/multi_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "mezzo/core/device_backend.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"
#include "mezzo/ops/update/flat_kernels.h"

namespace mezzo {
namespace {

// The defined tensors of a list as blocks, with their indices in the list.
struct Blocks {
  Device device{};
  std::vector<flat::Block> blocks;
  std::vector<std::size_t> index;

  std::optional<std::size_t> original(std::size_t block) const {
    if (block == blocks.size()) return std::nullopt;
    return index[block];
  }
};

Blocks blocks_of(const char* op, std::span<const Tensor> tensors) {
  Blocks result;
  result.blocks.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (!tensor.defined()) continue;
    check_arg(is_trainable(tensor.dtype()), op, "tensor ", i, " is ", tensor.dtype(), ", only ",
              trainable_dtypes("and"), " are supported. Use astype()");
    check_arg(tensor.is_one_block(), op, "tensor ", i, " (", tensor,
              ") is not dense. Use contiguous()");
    if (result.blocks.empty()) result.device = tensor.device();
    check_arg(tensor.device() == result.device, op, "tensor ", i, " is on ", tensor.device(),
              ", others are on ", result.device, ". Use to()");
    result.blocks.push_back({tensor.address(), tensor.numel(), tensor.dtype()});
    result.index.push_back(i);
  }
  return result;
}

// Blocks for in-place changes: counts the changes, and refuses tensors that share memory.
Blocks writable_blocks_of(const char* op, std::span<const Tensor> tensors) {
  std::vector<std::pair<const Storage*, std::size_t>> storages;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined()) storages.emplace_back(tensors[i].storage().get(), i);
  }
  std::ranges::sort(storages);
  const auto twin = std::ranges::adjacent_find(
      storages, [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twin != storages.end()) {
    fail(op, "tensors ", twin->second, " and ", (twin + 1)->second,
         " share memory, which would be changed twice. Copy one of them");
  }
  Blocks blocks = blocks_of(op, tensors);
  for (const auto& [storage, i] : storages) tensors[i].bump_version();
  return blocks;
}

// The number of times that a kernel passes over its blocks: reading, or reading and writing.
enum class Passes : std::uint8_t { kRead = 1, kUpdate = 2 };

void run_over(const char* op, const Blocks& blocks, Passes passes, auto&& kernel) {
  const auto describe = [&] {
    KernelWork work{.op = op, .kernel = flat::kernels_on(blocks.device).name};
    if (!blocks.blocks.empty()) work.dtype = blocks.blocks.front().dtype;
    for (const flat::Block& block : blocks.blocks) {
      work.bytes += static_cast<double>(block.count) * static_cast<double>(size_of(block.dtype)) *
                    static_cast<double>(passes);
    }
    return work;
  };
  run_listened_on(blocks.device, describe, kernel);
}

}  // namespace

std::optional<std::size_t> first_nonfinite(std::span<const Tensor> tensors) {
  const Blocks blocks = blocks_of("all_finite", tensors);
  std::size_t bad = 0;
  run_over("all_finite", blocks, Passes::kRead,
           [&] { bad = flat::kernels_on(blocks.device).first_nonfinite(blocks.blocks); });
  return blocks.original(bad);
}

namespace {

constexpr std::size_t kBlocksAt = alignof(flat::Block);  // after the factor
static_assert(kBlocksAt >= sizeof(float));

}  // namespace

void QueuedCheck::put(std::span<const Tensor> tensors, float factor, Device device) {
  put_list(tensors, factor, device, true);
}

void QueuedCheck::put_nothing(std::span<const Tensor> tensors, Device device) {
  put_list(tensors, 1, device, false);
}

void QueuedCheck::put_list(std::span<const Tensor> tensors, float factor, Device device,
                           bool looks) {
  Blocks list = blocks_of("all_finite", tensors);
  check_arg(list.blocks.empty() || list.device == device, "all_finite", "tensors are on ",
            list.device, ", they are to be checked on ", device, ". Use to()");
  read_bytes_ = 0;
  for (flat::Block& block : list.blocks) {
    if (!looks) block.count = 0;
    read_bytes_ += static_cast<double>(block.count) * static_cast<double>(size_of(block.dtype));
  }
  const std::size_t bytes = kBlocksAt + list.blocks.size() * sizeof(flat::Block);
  if (!list_.defined() || list_.device() != device) {
    // Include space for undefined tensors: they may be defined in the next list.
    const std::size_t room = kBlocksAt + tensors.size() * sizeof(flat::Block);
    list_ = empty({static_cast<std::int64_t>(room)}, DType::kU8, Format::kContiguous, device);
  }
  check_arg(bytes <= list_.bytes(), "all_finite", "the list of ", list.blocks.size(),
            " tensors is longer than the first one. Create a check for as many");
  std::vector<std::byte> contents(bytes);
  std::memcpy(contents.data(), &factor, sizeof(factor));
  if (!list.blocks.empty()) {
    std::memcpy(contents.data() + kBlocksAt, list.blocks.data(), bytes - kBlocksAt);
  }
  copy_bytes(list_.address(), device, contents.data(), kCpuDevice, bytes);
  index_ = std::move(list.index);
}

// Runs kernel(kernels, blocks, factor) on the list.
template <class Kernel>
void QueuedCheck::run(const char* op, const Kernel& kernel) const {
  const flat::Kernels& kernels = flat::kernels_on(list_.device());
  const auto* bytes = static_cast<const std::byte*>(list_.address());
  const flat::Listed<flat::Block> blocks{reinterpret_cast<const flat::Block*>(bytes + kBlocksAt),
                                         index_.size()};
  run_listened_on(
      list_.device(),
      [&] { return KernelWork{.op = op, .kernel = kernels.name, .bytes = read_bytes_}; },
      [&] { kernel(kernels, blocks, reinterpret_cast<const float*>(bytes)); });
}

void QueuedCheck::queue(const Tensor& first_bad, const Tensor& squares) const {
  const auto* known = squares.defined() ? static_cast<const double*>(squares.address()) : nullptr;
  run("all_finite", [&](const flat::Kernels& kernels, const auto& blocks, const float* factor) {
    kernels.note_nonfinite(list_.device(), blocks, factor, known,
                           static_cast<std::int32_t*>(first_bad.address()));
  });
}

void QueuedCheck::queue_squares(const Tensor& squares) const {
  run("sum_of_squares", [&](const flat::Kernels& kernels, const auto& blocks, const float* factor) {
    kernels.note_squares(list_.device(), blocks, factor, static_cast<double*>(squares.address()));
  });
}

std::optional<std::size_t> scale_in_place(std::span<const Tensor> tensors, float factor) {
  const Blocks blocks = writable_blocks_of("scale_in_place", tensors);
  std::size_t bad = 0;
  run_over("scale_in_place", blocks, Passes::kUpdate,
           [&] { bad = flat::kernels_on(blocks.device).scale(blocks.blocks, factor); });
  return blocks.original(bad);
}

std::vector<ExponentCounts> count_exponents(std::span<const Tensor> tensors, float factor) {
  check_arg(factor > 0 && std::isfinite(factor), "count_exponents",
            "the factor must be positive and finite: ", factor, ". Use 1 for plain counts");
  const Blocks blocks = blocks_of("count_exponents", tensors);
  std::vector<ExponentCounts> of_blocks(blocks.blocks.size());
  run_over("count_exponents", blocks, Passes::kRead, [&] {
    flat::kernels_on(blocks.device).count_exponents(blocks.blocks, factor, of_blocks);
  });
  std::vector<ExponentCounts> result(tensors.size());
  for (std::size_t i = 0; i < of_blocks.size(); ++i) result[blocks.index[i]] = of_blocks[i];
  return result;
}

std::optional<std::size_t> first_nonfinite(std::span<const ExponentCounts> counts) {
  const auto bad = std::ranges::find_if_not(counts, &ExponentCounts::all_finite);
  if (bad == counts.end()) return std::nullopt;
  return static_cast<std::size_t>(bad - counts.begin());
}

double sum_of_squares(std::span<const Tensor> tensors, const char* op) {
  const Blocks blocks = blocks_of(op, tensors);
  double sum = 0;
  run_over("sum_of_squares", blocks, Passes::kRead,
           [&] { sum = flat::kernels_on(blocks.device).sum_of_squares(blocks.blocks); });
  return sum;
}

void clamp_in_place(std::span<const Tensor> tensors, float limit) {
  check_arg(limit >= 0, "clamp_in_place", "the limit must not be negative: ", limit,
            ". Use its absolute value");
  const Blocks blocks = writable_blocks_of("clamp_in_place", tensors);
  run_over("clamp_in_place", blocks, Passes::kUpdate,
           [&] { flat::kernels_on(blocks.device).clamp(blocks.blocks, limit); });
}

}  // namespace mezzo

// Tests copies to a device that run beside its work. On this card nothing runs before someone waits
// for it, so every order that the streams allow can be produced.
#include "mezzo/core/upload.h"

#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "mezzo/core/block_source.h"
#include "mezzo/core/random.h"
#include "mezzo/kernels/cuda/context.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/cuda/card.h"

namespace mezzo {
namespace {

constexpr std::int64_t kSize = 5000;

// The tests are about recently freed memory being reused. Only the address sanitizer prevents reuse
// of blocks.
void expect_again(const void* block, const void* before) {
  if (!kBlocksAreWatched) {
    EXPECT_EQ(block, before);
  }
}

cudaStream_t main_stream() { return kernels::cuda::context_of(kCard).stream(); }
cudaStream_t copy_stream() { return kernels::cuda::context_of(kCard).copy_stream(); }

TEST(Upload, IsTheTensorOnTheCard) {
  const Tensor rows = randn({2, 3, 5, 4});
  const Tensor last = to_format(rows, Format::kChannelsLast);
  const Tensor pinned = empty_pinned({kSize}, DType::kBf16);
  fill(pinned, 3);
  for (const Tensor& source :
       {rows, last, permute(rows, {3, 1, 0, 2}), pinned, zeros({0, 4}), full({}, 2)}) {
    Upload upload(source, kCard);
    const Tensor copy = upload.take();
    EXPECT_EQ(copy.device(), kCard);
    EXPECT_EQ(copy.shape(), source.shape());
    EXPECT_EQ(copy.dtype(), source.dtype());
    EXPECT_EQ(copy.to_vector<float>(), source.to_vector<float>());
  }
  EXPECT_EQ(Upload(last, kCard).take().format(), Format::kChannelsLast);
  const Tensor there = rows.to(kCard);
  EXPECT_EQ(Upload(there, kCard).take().storage(), there.storage());
  EXPECT_EQ(Upload(rows, kCpuDevice).take().storage(), rows.storage());
  EXPECT_EQ(Upload(there, kCpuDevice).take().to_vector<float>(), rows.to_vector<float>());
}

TEST(Upload, WaitsForWorkThatUsedItsMemoryAndForNoLater) {
  Tensor before = full({kSize}, 2, DType::kF32, Format::kContiguous, kCard);
  const void* const block = before.address();
  const Tensor doubled = before + before;
  before = Tensor();
  Upload upload(full({kSize}, 7), kCard);
  const Tensor later = doubled + doubled;
  cudaEvent_t is_later_done = nullptr;
  ASSERT_EQ(cudaEventCreate(&is_later_done), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(is_later_done, main_stream()), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(copy_stream()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(is_later_done), cudaErrorNotReady);
  static_cast<void>(cudaGetLastError());
  const Tensor copy = upload.take();
  expect_again(copy.address(), block);
  EXPECT_EQ(doubled.to_vector<float>(), std::vector<float>(kSize, 4));
  EXPECT_EQ(copy.to_vector<float>(), std::vector<float>(kSize, 7));
  EXPECT_EQ(later.to_vector<float>(), std::vector<float>(kSize, 8));
  EXPECT_EQ(cudaEventDestroy(is_later_done), cudaSuccess);
}

TEST(Upload, MayGoBeforeItIsDone) {
  const void* const block = full({kSize}, 1, DType::kF32, Format::kContiguous, kCard).address();
  static_cast<void>(Upload(full({kSize}, 7), kCard));
  const Tensor next = full({kSize}, 2, DType::kF32, Format::kContiguous, kCard);
  expect_again(next.address(), block);
  synchronize(kCard);
  ASSERT_EQ(cudaStreamSynchronize(copy_stream()), cudaSuccess);
  EXPECT_EQ(next.to_vector<float>(), std::vector<float>(kSize, 2));
}

}  // namespace
}  // namespace mezzo

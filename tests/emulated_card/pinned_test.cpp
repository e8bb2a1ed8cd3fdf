// Tests when pinned memory is reused: on this card, queued work has certainly not run yet.
#include "mezzo/kernels/cuda/pinned.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace mezzo::kernels::cuda {
namespace {

TEST(Pinned, ABlockIsHandedOutAgainBehindTheCopiesInAllStreams) {
  constexpr std::size_t kBytes = 5000;
  PinnedPool pool;
  void* const block = pool.allocate(kBytes);
  void* to = nullptr;
  ASSERT_EQ(cudaMalloc(&to, kBytes), cudaSuccess);
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(to, block, kBytes, cudaMemcpyHostToDevice, stream), cudaSuccess);
    pool.note_use(block, stream);
  }
  ASSERT_EQ(cudaStreamSynchronize(streams[1]), cudaSuccess);
  pool.release(block);
  EXPECT_NE(pool.allocate(kBytes), block) << "the first stream's copy still reads it";
  ASSERT_EQ(cudaStreamSynchronize(streams[0]), cudaSuccess);
  EXPECT_EQ(pool.allocate(kBytes), block);
  EXPECT_EQ(cudaFree(to), cudaSuccess);
}

}  // namespace
}  // namespace mezzo::kernels::cuda

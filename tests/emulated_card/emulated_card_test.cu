// Tests what the emulated card does like a real GPU, and which mistakes it finds that a real GPU
// would hide or show only sometimes.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/emulated_card/block.h"
#include "tests/emulated_card/queue.h"

namespace mezzo::emulated_card {
namespace {

constexpr int kCount = 64;

__global__ void reverse_kernel(const int* in, int* out) {
  __shared__ int shared[kCount];
  shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = shared[kCount - 1 - threadIdx.x];
}

__global__ void hasty_reverse_kernel(const int* in, int* out) {
  __shared__ int shared[kCount];
  shared[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = shared[kCount - 1 - threadIdx.x];
}

__global__ void index_kernel(int* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<int>(100 * blockIdx.x + threadIdx.x);
}

__global__ void butterfly_kernel(int* sums, unsigned* odd) {
  int sum = static_cast<int>(threadIdx.x);
  for (unsigned step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  sums[threadIdx.x] = sum;
  odd[threadIdx.x] = __ballot_sync(0xffffffffU, threadIdx.x % 2 == 1);
}

__global__ void any_kernel(int wanted, int* out) {
  out[threadIdx.x] = __syncthreads_or(static_cast<int>(threadIdx.x) == wanted ? 1 : 0);
}

__global__ void early_return_kernel(int count) {
  if (static_cast<int>(threadIdx.x) >= count) return;
  __syncthreads();
}

__global__ void two_barriers_kernel(int count) {
  if (static_cast<int>(threadIdx.x) >= count) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

class EmulatedCard : public testing::Test {
 protected:
  EmulatedCard() { cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); }
  ~EmulatedCard() override {
    cudaStreamSynchronize(stream);
    for (void* block : blocks) cudaFree(block);
    set_order(0);
  }

  int* ints(int count) {
    void* block = nullptr;
    EXPECT_EQ(cudaMalloc(&block, static_cast<std::size_t>(count) * sizeof(int)), cudaSuccess);
    blocks.push_back(block);
    return static_cast<int*>(block);
  }
  std::vector<int> read(const int* from, int count) {
    std::vector<int> result(static_cast<std::size_t>(count));
    EXPECT_EQ(cudaMemcpyAsync(result.data(), from, result.size() * sizeof(int),
                              cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    return result;
  }
  // 0 to kCount - 1.
  int* numbers() {
    int* result = ints(kCount);
    index_kernel<<<1, kCount, 0, stream>>>(result);
    return result;
  }

  cudaStream_t stream = nullptr;
  std::vector<void*> blocks;
};

std::vector<int> downwards() {
  std::vector<int> result;
  for (int i = kCount; i-- > 0;) result.push_back(i);
  return result;
}

TEST_F(EmulatedCard, EveryThreadRunsOnce) {
  int* out = ints(3 * 5);
  index_kernel<<<3, 5, 0, stream>>>(out);
  EXPECT_EQ(read(out, 15),
            (std::vector<int>{0, 1, 2, 3, 4, 100, 101, 102, 103, 104, 200, 201, 202, 203, 204}));
}

TEST_F(EmulatedCard, ThreadsMeetAtABarrierInAnyOrder) {
  for (const unsigned order : {0U, 1U, 2U, 3U}) {
    set_order(order);
    int* out = ints(kCount);
    reverse_kernel<<<1, kCount, 0, stream>>>(numbers(), out);
    EXPECT_EQ(read(out, kCount), downwards()) << order;
  }
}

TEST_F(EmulatedCard, AMissingBarrierShows) {
  int* out = ints(kCount);
  hasty_reverse_kernel<<<1, kCount, 0, stream>>>(numbers(), out);
  EXPECT_NE(read(out, kCount), downwards());
}

TEST_F(EmulatedCard, LanesExchangeNumbersAndVotes) {
  int* sums = ints(2 * 32);
  int* odd = ints(2 * 32);
  butterfly_kernel<<<1, 64, 0, stream>>>(sums, reinterpret_cast<unsigned*>(odd));
  std::vector<int> expected(32, 31 * 32 / 2);
  expected.resize(64, 31 * 32 / 2 + 32 * 32);
  EXPECT_EQ(read(sums, 64), expected);
  EXPECT_EQ(read(odd, 64), std::vector<int>(64, static_cast<int>(0xaaaaaaaaU)));
}

TEST_F(EmulatedCard, ABarrierTellsWhetherAnyThreadSaidSo) {
  int* out = ints(kCount);
  any_kernel<<<1, kCount, 0, stream>>>(kCount - 1, out);
  EXPECT_EQ(read(out, kCount), std::vector<int>(kCount, 1));
  any_kernel<<<1, kCount, 0, stream>>>(kCount, out);
  EXPECT_EQ(read(out, kCount), std::vector<int>(kCount, 0));
}

using EmulatedCardDeathTest = EmulatedCard;

TEST_F(EmulatedCardDeathTest, EveryThreadHasToComeToABarrier) {
  const auto run = [&] {
    early_return_kernel<<<1, kCount, 0, stream>>>(5);
    cudaStreamSynchronize(stream);
  };
  EXPECT_DEATH(run(), "a block cannot go on");
}

TEST_F(EmulatedCardDeathTest, EveryThreadHasToComeToTheSameBarrier) {
  const auto run = [&] {
    two_barriers_kernel<<<1, kCount, 0, stream>>>(5);
    cudaStreamSynchronize(stream);
  };
  EXPECT_DEATH(run(), "wait at different places");
}

TEST_F(EmulatedCardDeathTest, KernelsDoNotReachOrdinaryMemory) {
  int here = 0;
  EXPECT_DEATH((index_kernel<<<1, 1, 0, stream>>>(&here)), "ordinary memory of the host");
}

#ifndef __SANITIZE_ADDRESS__  // under it the card's blocks are in host memory
TEST_F(EmulatedCardDeathTest, TheHostDoesNotReachTheCardsMemory) {
  int* block = ints(1);
  EXPECT_DEATH(*static_cast<volatile int*>(block) = 1, "");
}
#endif

TEST_F(EmulatedCard, FreshMemoryHoldsNaNs) {
  const int bits = read(ints(1), 1)[0];
  EXPECT_EQ(bits, -1);
}

TEST_F(EmulatedCard, WorkRunsWhenTheHostWaitsForIt) {
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  int& number = *static_cast<int*>(pinned);
  number = 1;
  int* block = ints(1);
  cudaMemcpyAsync(block, &number, sizeof(int), cudaMemcpyHostToDevice, stream);
  number = 2;  // too early: the copy has not been made
  EXPECT_EQ(read(block, 1)[0], 2);
  int ordinary = 3;
  cudaMemcpyAsync(block, &ordinary, sizeof(int), cudaMemcpyHostToDevice, stream);
  ordinary = 4;  // has already been read
  EXPECT_EQ(read(block, 1)[0], 3);
  cudaFree(pinned);
}

TEST_F(EmulatedCard, AStreamWaitsForAnEventOfAnother) {
  cudaStream_t other = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  int* block = ints(1);
  cudaMemsetAsync(block, 0, sizeof(int), other);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaEventRecord(event, other);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(read(block, 1)[0], -1);  // this stream does not wait
  cudaStreamWaitEvent(stream, event, 0);
  EXPECT_EQ(read(block, 1)[0], 0);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  cudaEventDestroy(event);
}

TEST_F(EmulatedCard, RecordedWorkRunsAtEachLaunch) {
  int* out = ints(kCount);
  const int* in = numbers();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  reverse_kernel<<<1, kCount, 0, stream>>>(in, out);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(read(out, 1)[0], -1);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    cudaMemsetAsync(out, 0, kCount * sizeof(int), stream);
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    EXPECT_EQ(read(out, kCount), downwards());
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_F(EmulatedCard, CallsThatWaitBreakARecording) {
  const auto recorded = [&](const auto& calls) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    calls();
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    cudaGraphDestroy(graph);
    return ended;
  };
  void* block = nullptr;
  EXPECT_EQ(recorded([] {}), cudaSuccess);
  EXPECT_EQ(recorded([&] { EXPECT_EQ(cudaMalloc(&block, 4), cudaErrorStreamCaptureUnsupported); }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(recorded([&] {
              EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
            }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(recorded([&] {
              cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
              cudaThreadExchangeStreamCaptureMode(&mode);
              EXPECT_EQ(cudaMalloc(&block, 4), cudaSuccess);
              cudaThreadExchangeStreamCaptureMode(&mode);
            }),
            cudaSuccess);
  cudaFree(block);
  static_cast<void>(cudaGetLastError());
}

TEST_F(EmulatedCard, RefusesGridsThatNoCardTakes) {
  index_kernel<<<1, 1025, 0, stream>>>(nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  index_kernel<<<dim3(1, 65536), 1, 0, stream>>>(nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  index_kernel<<<0, 1, 0, stream>>>(nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace mezzo::emulated_card

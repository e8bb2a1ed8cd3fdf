// Runs a block of threads one after the other: each runs until it waits for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <vector_types.h>

namespace mezzo::emulated_card {

// The indices that a thread of a kernel sees.
struct Position {
  uint3 thread{};
  uint3 block{};
  dim3 threads;  // of a block
  dim3 blocks;   // of the grid
};

// A line of a kernel.
struct Line {
  const char* file = "";
  int number = 0;
};

// The position of the running thread. It changes when another thread continues.
Position& position();

// Sets the order of threads and blocks, which a GPU may choose freely: 0 forwards, 1 backwards, any
// other number is the seed of a shuffle. A kernel that lacks a __syncthreads() gives other results
// in another order. The initial order is MEZZO_EMULATED_CARD_ORDER's, or 0.
void set_order(unsigned order);

// Runs `body` for every thread of every block.
void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& body);

// Waits for all threads of the block; true if any of them has passed true. It checks that all of
// them reach the same line and that none returns before.
bool wait_for_block(bool any, Line where);

// Waits for the lanes of `mask`, each with at most 16 bytes, then copies lane `from`'s bytes to
// `to`. If `to` is null, no value is copied. Returns the lanes that have passed true.
unsigned exchange_in_warp(unsigned mask, const void* value, std::size_t bytes, unsigned from,
                          void* to, bool vote);

// Fills a variable in shared memory with ones when the first thread of a block reaches it.
void forget_shared(void* variable, std::size_t bytes);

}  // namespace mezzo::emulated_card

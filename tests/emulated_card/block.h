// A block of threads, one after the other: each runs until it waits for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include <vector_types.h>

namespace mezzo::emulated_card {

// What a thread of a kernel knows about itself.
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

// Of the thread that runs. Changed when another one goes on.
Position& position();

// The order of threads and blocks, which is free on a card: 0 forwards, 1 backwards, any other
// number is the seed of a shuffle. What lacks a __syncthreads() gives other numbers in another
// order. At the start it is MEZZO_EMULATED_CARD_ORDER's, or 0.
void set_order(unsigned order);

// Runs `body` for every thread of every block.
void run_grid(dim3 blocks, dim3 threads, const std::function<void()>& body);

// Waits for all threads of the block; true if any of them has passed true. That all come to the
// same line, and none returns before, is checked.
bool wait_for_block(bool any, Line where);

// Waits for the lanes of `mask`, each with 16 bytes at most; then copies lane `from`'s to `to`.
// With null for `to` all values are left aside, and only the lanes that have passed true are
// returned.
unsigned exchange_in_warp(unsigned mask, const void* value, std::size_t bytes, unsigned from,
                          void* to, bool vote);

// Fills a variable in shared memory with ones when the first thread of a block comes by.
void forget_shared(void* variable, std::size_t bytes);

}  // namespace mezzo::emulated_card

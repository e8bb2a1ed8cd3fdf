// Scratch memory of a kernel's call: a part of memory that lies idle meanwhile, if somebody lends
// it.
#pragma once

#include <cstddef>

#include "mezzo/core/storage.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// Lends a part of the host's memory to the kernel that this thread calls while the object exists.
// Graph mode lends what is free in its arena, so that a program needs no memory on top of it.
class LendScratch {
 public:
  // `bytes` from `offset` on, which lie at a multiple of 64.
  LendScratch(const Ref<Storage>& memory, std::size_t offset, std::size_t bytes);
  ~LendScratch();
  LendScratch(const LendScratch&) = delete;
  LendScratch& operator=(const LendScratch&) = delete;

 private:
  friend Tensor scratch(const Shape& shape, DType dtype, Format format);

  const Ref<Storage>& memory_;
  std::size_t offset_;
  std::size_t bytes_;
  LendScratch* previous_;
};

// A dense tensor of uninitialised elements in the host's memory: a part of what is lent to this
// thread, if enough of that is left, else memory of its own. It must be let go before the kernel's
// call ends.
Tensor scratch(const Shape& shape, DType dtype, Format format = Format::kContiguous);

}  // namespace mezzo

// Scratch memory for the call of a kernel: idle memory that somebody lends, or memory of its own.
#pragma once

#include <cstddef>

#include "mezzo/core/storage.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// Lends host memory to the kernels that this thread calls while the object exists. Graph mode lends
// the free part of its arena, so that a program needs no memory beyond it.
class LendScratch {
 public:
  // Lends `bytes` of `memory` from `offset` on, which must be at a multiple of 64.
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

// A dense tensor of uninitialised elements in host memory: part of the memory lent to this thread,
// if enough of that is left, else memory of its own. It must be released before the kernel's call
// ends.
Tensor scratch(const Shape& shape, DType dtype, Format format = Format::kContiguous);

}  // namespace mezzo

// Running a module without a trace in its buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// Undoes, when it goes, what happened to a module's buffers since it was made: also to those that
// the module replaced by other tensors. Buffers that nothing happened to are not written, for a
// tape may rely on their version.
class KeepBuffers {
 public:
  explicit KeepBuffers(Module& module);
  ~KeepBuffers();
  KeepBuffers(const KeepBuffers&) = delete;
  KeepBuffers& operator=(const KeepBuffers&) = delete;

 private:
  struct Kept {
    Tensor* member;  // the module's
    Tensor buffer;   // that it was
    Tensor copy;
    std::uint64_t version;
  };
  std::vector<Kept> kept_;
};

}  // namespace mezzo::nn

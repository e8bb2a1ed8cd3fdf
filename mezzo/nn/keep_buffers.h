// Running a module without lasting changes to its buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// On destruction, undoes all changes to a module's buffers since construction, even where the
// module has replaced them by other tensors. Unchanged buffers are not written, because a tape may
// rely on their version.
class KeepBuffers {
 public:
  explicit KeepBuffers(Module& module);
  ~KeepBuffers();
  KeepBuffers(const KeepBuffers&) = delete;
  KeepBuffers& operator=(const KeepBuffers&) = delete;

 private:
  struct Kept {
    Tensor* member;  // the member of the module
    Tensor buffer;   // its earlier value
    Tensor copy;
    std::uint64_t version;
  };
  std::vector<Kept> kept_;
};

}  // namespace mezzo::nn

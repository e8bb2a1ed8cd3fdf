#include "mezzo/nn/keep_buffers.h"

#include "mezzo/core/tensor.h"

namespace mezzo::nn {

KeepBuffers::KeepBuffers(Module& module) {
  module.apply([this](Module& part) {
    for (const Module::Member& member : part.own_buffers()) {
      const Tensor& buffer = *member.tensor;
      if (!buffer.defined()) continue;
      kept_.push_back({member.tensor, buffer, copy_of(buffer), buffer.version()});
    }
  });
}

KeepBuffers::~KeepBuffers() {
  for (const Kept& kept : kept_) {
    if (kept.member->impl() != kept.buffer.impl()) *kept.member = kept.buffer;
    if (kept.buffer.version() != kept.version) copy_elements(kept.copy, kept.buffer);
  }
}

}  // namespace mezzo::nn

// What stands for tensors while a step is captured and nothing is computed.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/storage.h"
#include "mezzo/graph/program.h"

namespace mezzo::graph {

// A value as somebody may hold it: a geometry over a storage.
struct Known {
  std::int64_t offset;
  ValueSpec spec;
  ValueId value;
};

inline bool is_of(const Known& known, const Tensor& tensor) {
  return known.offset == tensor.offset() && known.spec.dtype == tensor.dtype() &&
         known.spec.shape == tensor.shape() && known.spec.strides == tensor.strides();
}

// What stands for the elements of a result. It knows the values that lie in its storage, so that
// they are forgotten with it: another storage may have its address later.
class Placeholder final : public LazyContents {
 public:
  explicit Placeholder(std::string what) : what_(std::move(what)) {}

  void fill(void* /*destination*/) override {
    fail("capture", "the step depends on data: it asks for the elements of ", what_,
         " while it is captured, when nothing is computed. Keep values as tensors, or look at them "
         "after the run");
  }
  bool is_current() const override { return true; }

  std::vector<Known> values;
  bool is_input = false;

 private:
  std::string what_;
};

inline Placeholder* placeholder_of(const Tensor& tensor) {
  return dynamic_cast<Placeholder*>(tensor.storage()->lazy_contents());
}

inline Tensor placeholder(const ValueSpec& spec, Device device, std::string what) {
  return stand_in(spec, device, Ref<LazyContents>(new Placeholder(std::move(what))));
}

}  // namespace mezzo::graph

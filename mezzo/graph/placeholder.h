// Placeholders for tensors during a capture, when nothing is computed.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/storage.h"
#include "mezzo/graph/program.h"

namespace mezzo::graph {

// A value as a tensor may show it: a geometry over a storage.
struct Known {
  std::int64_t offset;
  ValueSpec spec;
  ValueId value;
};

inline bool is_of(const Known& known, const Tensor& tensor) {
  return known.offset == tensor.offset() && known.spec.dtype == tensor.dtype() &&
         known.spec.shape == tensor.shape() && known.spec.strides == tensor.strides();
}

// The state of one capture, shared by its placeholders, some of which may outlive it.
struct CaptureState {
  std::atomic<bool> is_over = false;
  std::atomic<int> placeholders = 0;  // placeholders that somebody holds
};

// The placeholder for a result's elements. It knows the values in its storage, so that they are
// forgotten with it: a later storage may have the same address.
class Placeholder final : public LazyContents {
 public:
  Placeholder(std::string what, std::shared_ptr<CaptureState> capture)
      : what_(std::move(what)), capture_(std::move(capture)) {
    ++capture_->placeholders;
  }
  ~Placeholder() override { --capture_->placeholders; }
  Placeholder(const Placeholder&) = delete;
  Placeholder& operator=(const Placeholder&) = delete;

  void fill(void* /*destination*/) override {
    check_arg(!capture_->is_over, "capture", what_,
              " of a step is used outside it, but was never computed: it belongs to the capture, "
              "which computes nothing. Return it from the step, or compute it outside");
    fail("capture", "the step depends on data: it reads the elements of ", what_,
         " while it is captured, when nothing is computed. Keep values as tensors, or read them "
         "after the run");
  }
  bool is_current() const override { return true; }
  bool is_of(const CaptureState& capture) const { return capture_.get() == &capture; }

  std::vector<Known> values;
  bool is_input = false;

 private:
  std::string what_;
  std::shared_ptr<CaptureState> capture_;
};

inline Placeholder* placeholder_of(const Tensor& tensor) {
  return dynamic_cast<Placeholder*>(tensor.storage()->lazy_contents());
}

inline Tensor placeholder(const ValueSpec& spec, Device device, std::string what,
                          std::shared_ptr<CaptureState> capture) {
  return stand_in(spec, device,
                  Ref<LazyContents>(new Placeholder(std::move(what), std::move(capture))));
}

}  // namespace mezzo::graph

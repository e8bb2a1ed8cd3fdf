// GradManager: MegEngine's way to say which tensors get gradients, and when operations are
// recorded.
#pragma once

#include <span>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::amp {

// Collects the gradients of the attached tensors, and of no others.
//
//   GradManager gm;
//   gm.attach(net.parameters());
//   {
//     const GradManager::Recording recording(gm);
//     gm.backward(loss_of(net(x), y));  // adds to the grad() of each parameter
//   }
//   optimizer.step();
class GradManager {
 public:
  // Records from here to the end of the scope, or to backward().
  class Recording {
   public:
    explicit Recording(GradManager& manager) : manager_(manager) { manager_.record(); }
    ~Recording() { manager_.release(); }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    GradManager& manager_;
  };

  GradManager() = default;
  ~GradManager() { release(); }
  GradManager(const GradManager&) = delete;
  GradManager& operator=(const GradManager&) = delete;

  // Leaves that require no gradient do from now on; results may be attached while recording. A
  // tensor that is attached already stays so once. Throws ArgumentError for undefined and integer
  // tensors.
  GradManager& attach(std::span<const Tensor> tensors);
  GradManager& attach(const Tensor& tensor) { return attach({&tensor, 1}); }
  const std::vector<Tensor>& attached_tensors() const { return tensors_; }

  // Operations of this thread are recorded from here on, also under an outer NoGrad. Throws
  // ArgumentError if they are being recorded for this manager already.
  void record();
  // Ends that, on the same thread; nothing happens if nothing is recorded. What other managers
  // began to record since goes on.
  void release();
  bool is_recording() const { return is_recording_; }

  // Adds d(y)/d(tensor), weighted by dy, to grad() of every attached tensor, and stops recording. y
  // must be a scalar if dy is undefined. Throws ArgumentError unless recording.
  void backward(const Tensor& y, const Tensor& dy = Tensor());
  void backward(std::span<const Tensor> ys, std::span<const Tensor> dys = {});

 private:
  std::vector<Tensor> tensors_;
  bool is_recording_ = false;
};

}  // namespace mezzo::amp

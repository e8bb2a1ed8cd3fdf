// GradManager, as in MegEngine: chooses which tensors get gradients, and when operations are
// recorded.
#pragma once

#include <span>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::amp {

// Collects the gradients of the attached tensors and of no others.
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
  // Records until the end of the scope, or until backward().
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

  // Attaches tensors. Leaves are made to require gradients; results may be attached while
  // recording. A tensor that is already attached stays attached once. Throws ArgumentError for
  // undefined and integer tensors.
  GradManager& attach(std::span<const Tensor> tensors);
  GradManager& attach(const Tensor& tensor) { return attach({&tensor, 1}); }
  const std::vector<Tensor>& attached_tensors() const { return tensors_; }

  // Begins to record the operations of this thread, even within an outer NoGrad. Throws
  // ArgumentError if this manager is recording already.
  void record();
  // Ends the recording, on the same thread; does nothing if there is none. Recordings that other
  // managers have begun since continue.
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

// Hearing of gradients while a backward pass goes on.
#pragma once

#include "mezzo/core/scoped.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// Is told, within backward(), of each leaf whose gradient is complete: nothing more of this pass
// will be added to it. So the gradient can be sent or used while the rest is computed. It is not
// told before the last function of a user has been differentiated, which may add to any gradient,
// nor before the last operation that exchanges values with other processes: what a listener sends
// would meet that at different places where processes use different leaves. During a capture it is
// told at the same places. Not told of leaves whose gradients grad() returns, nor of
// those that get no gradient.
class LeafListener {
 public:
  virtual void on_complete(const Tensor& leaf) = 0;

 protected:
  ~LeafListener() = default;
};

// The listener of this thread; null if there is none.
LeafListener* leaf_listener();

// While it exists, this thread's backward passes tell the listener.
class ListenToLeaves {
 public:
  explicit ListenToLeaves(LeafListener* listener);

 private:
  Scoped<LeafListener*> scope_;
};

}  // namespace mezzo

// Gradients that processes exchange together.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::optim {

// A parameter whose gradient is exchanged.
struct ExchangedParam {
  Tensor param;
  Tensor part{};  // this process's part of it, a leaf [n]; undefined if there are none
};

// One exchange of some gradients.
class BucketExchange {
 public:
  virtual ~BucketExchange() = default;
  // Exchanges what was taken when it was made.
  virtual void run(distributed::ProcessGroup& group) = 0;
  // Gives the parameters that had a gradient, or their parts, the means.
  virtual void receive() = 0;
};

// What is exchanged, in what form. f32 gradients are summed and then multiplied by 1 / the number
// of processes, as gradient accumulation does. 16-bit ones are multiplied first, in f32, so that
// sums in f16 do not overflow where the mean does not; they are summed in f32, and the mean is
// rounded once more. So all processes get the same bits, whole or in parts.
class GradientBucket {
 public:
  GradientBucket(std::vector<ExchangedParam> params, DType reduce_dtype)
      : params_(std::move(params)), reduce_dtype_(reduce_dtype) {}

  const std::vector<ExchangedParam>& params() const { return params_; }

  // Sends the gradients that the parameters have now; a missing one counts as zeros. With `posts`,
  // on CPUs, the exchange is posted to the group. Gradients may not be used before receive(), and
  // with `to_parts` they are dropped at once.
  void send(distributed::ProcessGroup& group, bool to_parts, bool posts);
  // To be called after everything that was posted is done. The parameters that had a gradient, or
  // their parts, get the mean, in f32.
  void receive();
  // Forgets what was sent.
  void drop() { exchange_.reset(); }

  // For each parameter, a hash of the shape and format of the gradient that was sent last; 0 for
  // none.
  const std::vector<std::uint64_t>& layouts() const { return layouts_; }

 private:
  bool is_on_host() const;

  std::vector<ExchangedParam> params_;
  DType reduce_dtype_;
  std::vector<std::uint64_t> layouts_;
  std::unique_ptr<BucketExchange> exchange_;
};

}  // namespace mezzo::optim

#include "mezzo/optim/gradient_bucket.h"

#include <algorithm>

#include "mezzo/distributed/agreement.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/optim/bucket_exchanges.h"

namespace mezzo::optim {
namespace {

// A hash of what gives the elements their meaning, whatever their dtype: gradients in 16 bits may
// meet sums in f32.
std::uint64_t meaning_of(const Tensor& grad) {
  if (!grad.defined()) return 0;
  distributed::Hash hash;
  hash.add(grad.format());
  for (const std::int64_t size : grad.shape()) hash.add(size);
  return hash.value();
}

}  // namespace

bool GradientBucket::is_on_host() const {
  return std::ranges::all_of(params_,
                             [](const ExchangedParam& p) { return p.param.device().is_cpu(); });
}

void GradientBucket::send(distributed::ProcessGroup& group, bool to_parts, bool posts) {
  const NoGrad guard;
  layouts_.clear();
  layouts_.reserve(params_.size());
  for (const ExchangedParam& p : params_) layouts_.push_back(meaning_of(p.param.grad()));
  if (to_parts) {
    exchange_ = exchange_to_parts(params_, reduce_dtype_, group.size());
  } else if (is_on_host() && reduce_dtype_ == DType::kF32) {
    exchange_ = exchange_in_place(params_);
  } else {
    exchange_ = exchange_packed(params_, reduce_dtype_, group.size());
  }
  const auto run = [exchange = exchange_.get(), &group] {
    const NoGrad no_tape;
    exchange->run(group);
  };
  posts&& is_on_host() ? group.post(run) : run();
}

void GradientBucket::receive() {
  const NoGrad guard;
  exchange_->receive();
  exchange_.reset();
}

}  // namespace mezzo::optim

#include <algorithm>
#include <cstddef>
#include <vector>

#include "mezzo/distributed/average.h"
#include "mezzo/ops/cast.h"
#include "mezzo/optim/bucket_exchanges.h"
#include "mezzo/optim/own_gradients.h"

namespace mezzo::optim {
namespace {

// Below this many elements, gathering costs less than an exchange of its own.
constexpr std::size_t kSmall = std::size_t{1} << 16;

std::span<float> numbers_of(const Tensor& grad) {
  return {grad.mutable_data<float>(), static_cast<std::size_t>(grad.numel())};
}

class ExchangeInPlace final : public BucketExchange {
 public:
  explicit ExchangeInPlace(std::span<const ExchangedParam> params) {
    for (const ExchangedParam& p : params) {
      const Tensor grad = take(p.param);
      const std::span<float> numbers = numbers_of(grad);
      if (numbers.size() >= kSmall) {
        large_.push_back(grad);
      } else {
        small_.push_back(grad);
        gathered_.insert(gathered_.end(), numbers.begin(), numbers.end());
      }
    }
  }

  void run(distributed::ProcessGroup& group) override {
    for (const Tensor& grad : large_) distributed::average(group, numbers_of(grad));
    distributed::average(group, gathered_);
  }

  void receive() override {
    auto from = gathered_.cbegin();
    for (const Tensor& grad : small_) {
      const auto end = from + static_cast<std::ptrdiff_t>(grad.numel());
      std::copy(from, end, grad.mutable_data<float>());
      from = end;
    }
  }

 private:
  // The gradient as f32 numbers that nobody else uses; zeros that are not kept if it has none.
  static Tensor take(const Tensor& param) {
    if (!param.grad().defined()) return zeros(param.shape());
    if (is_lower(param.grad().dtype())) param.set_grad(cast(param.grad(), DType::kF32));
    return own_gradients_of(std::span(&param, 1)).front();
  }

  std::vector<Tensor> large_;
  std::vector<Tensor> small_;
  std::vector<float> gathered_;  // elements of the small ones
};

}  // namespace

std::unique_ptr<BucketExchange> exchange_in_place(std::span<const ExchangedParam> params) {
  return std::make_unique<ExchangeInPlace>(params);
}

}  // namespace mezzo::optim

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "mezzo/distributed/agreement.h"
#include "mezzo/distributed/average.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/own_gradients.h"

namespace mezzo::optim {
namespace {

constexpr const char* kOp = "average_gradients";

// Without this check, sums of different arrays would be exchanged silently, or processes would wait
// for ever.
void check_same_layouts(distributed::ProcessGroup& group, const std::vector<Tensor>& grads) {
  constexpr const char* kAdvice =
      "Every process must train the same network, and use the same parameters in the same steps";
  std::vector<std::uint64_t> layouts(grads.size());
  std::ranges::transform(grads, layouts.begin(), distributed::layout_of);
  const auto difference =
      distributed::first_difference(group, layouts, kOp, "the number of parameters", kAdvice);
  if (!difference.has_value()) return;
  const bool is_missing_first = difference->first == 0;
  const bool is_missing = is_missing_first || difference->value == 0;
  fail<ArgumentError>(
      kOp, "the gradient of parameter ", difference->index, " ",
      is_missing ? "is missing in process " : "differs in shape or format in process ",
      is_missing_first ? 0 : difference->process, ", unlike in process ",
      is_missing_first ? difference->process : 0, ". ", kAdvice);
}

// Exchanges small gradients together, because each exchange has a fixed cost besides its bytes.
class SmallGradients {
 public:
  explicit SmallGradients(distributed::ProcessGroup& group) : group_(group) {}

  static bool is_small(std::span<const float> grad) { return grad.size() < kRoom / 4; }

  void add(std::span<float> grad) {
    if (numbers_.size() + grad.size() > kRoom) finish();
    grads_.push_back(grad);
    numbers_.insert(numbers_.end(), grad.begin(), grad.end());
  }

  void finish() {
    distributed::average(group_, numbers_);
    auto from = numbers_.cbegin();
    for (const std::span<float> grad : grads_) {
      const auto end = from + static_cast<std::ptrdiff_t>(grad.size());
      std::copy(from, end, grad.begin());
      from = end;
    }
    grads_.clear();
    numbers_.clear();
  }

 private:
  static constexpr std::size_t kRoom = std::size_t{1} << 18;

  distributed::ProcessGroup& group_;
  std::vector<std::span<float>> grads_;
  std::vector<float> numbers_;  // elements of all of them
};

void average_now(std::span<const Tensor> params, distributed::ProcessGroup& group) {
  const NoGrad guard;
  for (const Tensor& param : params) {
    const Tensor& grad = param.grad();
    if (!grad.defined()) continue;
    check_arg(grad.device().is_cpu(), kOp, "a gradient is on ", grad.device(),
              ". Several processes can train only on CPUs: train there, or with one process");
    if (is_lower(grad.dtype())) param.set_grad(cast(grad, DType::kF32));
  }
  const std::vector<Tensor> grads = own_gradients_of(params);
  check_same_layouts(group, grads);
  SmallGradients small(group);
  for (const Tensor& grad : grads) {
    if (!grad.defined()) continue;
    const std::span<float> numbers(grad.mutable_data<float>(),
                                   static_cast<std::size_t>(grad.numel()));
    SmallGradients::is_small(numbers) ? small.add(numbers) : distributed::average(group, numbers);
  }
  small.finish();
}

}  // namespace

void average_gradients(std::span<const Tensor> params, distributed::ProcessGroup& group) {
  if (group.size() == 1) return;
  do_host_work(kOp, {}, params,
               [leaves = std::vector<Tensor>(params.begin(), params.end()),
                &group](std::span<const Tensor>) { return average_now(leaves, group), true; });
}

}  // namespace mezzo::optim

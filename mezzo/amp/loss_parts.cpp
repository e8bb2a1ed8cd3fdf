#include "mezzo/amp/loss_parts.h"

#include "mezzo/amp/autocast.h"
#include "mezzo/core/error.h"
#include "mezzo/distributed/average.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/capture_hook.h"

namespace mezzo::amp {
LossParts::Whole LossParts::begin(const Batch& batch, std::int64_t micro_batches) {
  if ((processes_ == nullptr && micro_batches == 1) || loss_.adds_up()) return {};
  const NoAutocast outside;  // compute like the loss
  const Tensor count = loss_.count(batch);
  check_arg(!count.defined() || !count.requires_grad(), "train_step",
            "the count of the loss has a gradient, as with trained class weights, which parts of a "
            "batch cannot compute by themselves. Train with one micro-batch in one process, or "
            "detach the weights");
  if (processes_ != nullptr) return share(count, batch);
  return {.divisor = count};
}

// The contributions of processes are averaged, so each is divided by the mean of their counts. It
// is stored in f32, like gradients; this is the only rounding, and it is the same in all processes.
LossParts::Whole LossParts::share(const Tensor& count, const Batch& batch) {
  const Device device = count.defined() ? count.device() : tensors_of(batch).front().device();
  if (!shared_.defined() || shared_.device() != device) {
    shared_ = ones({}, DType::kF32, Format::kContiguous, device);
  }
  const auto exchange = [processes = processes_, shared = shared_,
                         examples = batch.size()](std::span<const Tensor> reads) {
    const double own = reads.empty() ? static_cast<double>(examples) : reads[0].item();
    const double mean = distributed::average(*processes, own);
    // Exactly 1 for batches of equal size, which changes no bit.
    fill(shared, reads.empty() ? own / mean : mean);
    return true;
  };
  const std::span<const Tensor> reads(&count, count.defined() ? 1 : 0);
  do_host_work("share_count", reads, {}, exchange);
  return count.defined() ? Whole{.divisor = shared_} : Whole{.ratio = shared_};
}

LossParts::Part LossParts::part_of(Batch part, const Whole& whole, double share) const {
  Tensor loss = whole.divisor.defined() ? loss_.sum(part) : loss_(part);
  // A region in which the step is called applies to the network alone.
  const NoAutocast outside;
  check_arg(loss.defined(), "train_step", "the loss returns an undefined tensor. Return a scalar");
  check_arg(loss.numel() == 1, "train_step", "the loss has the shape ", loss.shape(),
            ", but must be a scalar. Return its mean() or sum()");
  if (whole.divisor.defined()) return {loss / whole.divisor, 1};
  if (loss_.adds_up()) return {loss, static_cast<double>(distributed::process_count(processes_))};
  if (whole.ratio.defined()) loss = loss * whole.ratio;
  return {loss, share};
}

}  // namespace mezzo::amp

#include "mezzo/amp/update_on_device.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "mezzo/ops/update/flat_kernels.h"

namespace mezzo::amp {
namespace {

// `count` elements of that dtype in a block of 4-byte words, from word `first` on.
Tensor part_of(const Tensor& words, std::size_t first, std::size_t count, DType dtype) {
  const Shape shape{static_cast<std::int64_t>(count)};
  const std::size_t offset = first * sizeof(std::int32_t) / size_of(dtype);
  return Tensor(make_ref<TensorImpl>(words.storage(), static_cast<std::int64_t>(offset), shape,
                                     strides_for(shape, Format::kContiguous), dtype));
}

Tensor element(const Tensor& vector, std::size_t i) {
  return alias(vector, {}, {}, vector.offset() + static_cast<std::int64_t>(i));
}

std::vector<Tensor> gradients_of(const optim::Optimizer& optimizer) {
  std::vector<Tensor> grads;
  grads.reserve(optimizer.params().size());
  for (const Tensor& param : optimizer.params()) grads.push_back(param.grad());
  return grads;
}

}  // namespace

UpdateOnDevice::UpdateOnDevice(std::span<const Player> players, std::size_t most_losses,
                               const Checks& checks)
    : has_gradients_(players.size()), most_losses_(most_losses), checks_(checks) {
  for (const Player& player : players) {
    seats_.push_back({.player = player, .step = optim::QueuedStep(*player.optimizer)});
  }
}

bool UpdateOnDevice::fits(std::span<const Player> players, std::span<const Tensor> losses,
                          bool unscales) {
  const auto step_fits = [unscales](const Player& player) {
    const bool clips_16_bits =
        !unscales && player.max_grad_norm.has_value() &&
        std::ranges::any_of(player.optimizer->params(), [](const Tensor& param) {
          return param.grad().defined() && is_lower(param.grad().dtype());
        });
    return !clips_16_bits && optim::QueuedStep::fits(*player.optimizer);
  };
  const auto loss_fits = [](const Tensor& loss) {
    return loss.dtype() == DType::kF32 && loss.numel() == 1;
  };
  return std::ranges::all_of(players, step_fits) && std::ranges::all_of(losses, loss_fits);
}

// Allocated once for a device, because recordings hold the address.
void UpdateOnDevice::make_words(Device device) {
  constexpr std::size_t kDouble = 2;  // in words
  const bool has_faults = !device.is_cpu();
  const std::size_t gradient_flags = checks_.gradients ? seats_.size() : 0;
  const std::size_t flags = gradient_flags + (checks_.losses ? 1 : 0) + (has_faults ? 1 : 0);
  const std::size_t first_flag = kDouble * seats_.size();
  const std::size_t count = first_flag + flags + most_losses_;
  words_ = zeros({static_cast<std::int64_t>(count)}, DType::kI32, Format::kContiguous, device);
  flags_ = part_of(words_, first_flag, flags, DType::kI32);
  loss_words_ = part_of(words_, first_flag + flags, most_losses_, DType::kF32);
  const Tensor squares = part_of(words_, 0, seats_.size(), DType::kF64);
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (checks_.gradients) seats_[i].flag = element(flags_, i);
    if (seats_[i].player.max_grad_norm.has_value()) seats_[i].squares = element(squares, i);
  }
  if (checks_.losses) loss_flag_ = element(flags_, gradient_flags);
  if (has_faults) fault_flag_ = element(flags_, flags - 1);
  loss_check_.put({&loss_words_, 1}, 1, device);
}

void UpdateOnDevice::prepare(std::span<const Carried> carried) {
  const Device device = seats_.front().player.optimizer->params().front().device();
  if (!words_.defined() || words_.device() != device) make_words(device);
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    const auto& [scale, is_bad] = carried[i];
    const double inverse = 1 / scale;
    seat.step.prepare(inverse);
    has_gradients_[i] = seat.step.has_gradients();
    if (!seat.flag.defined() && !seat.squares.defined()) continue;
    const std::vector<Tensor> grads = gradients_of(*seat.player.optimizer);
    if (is_bad == false) {
      seat.check.put_nothing(grads, device);
      continue;
    }
    // A norm needs the true gradients. The check alone does not: gradients that are finite after
    // scaling by at least 1 are finite.
    const bool divides = seat.squares.defined() || scale < 1;
    const double factor = divides ? inverse : 1;
    seat.check.put(grads, static_cast<float>(is_bad == true ? std::nan("") : factor), device);
  }
}

void UpdateOnDevice::queue(std::span<const Tensor> losses) const {
  if (flags_.numel() > 0) fill(flags_, flat::kNothingBad);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    copy_elements(alias(losses[i], {}, {}, losses[i].offset()), element(loss_words_, i));
  }
  if (loss_flag_.defined() && !losses.empty()) loss_check_.queue(loss_flag_);
  if (fault_flag_.defined()) {
    flat::kernels_on(words_.device())
        .note_faults(words_.device(), static_cast<std::int32_t*>(fault_flag_.address()));
  }
  for (const Seat& seat : seats_) {
    if (seat.squares.defined()) seat.check.queue_squares(seat.squares);
    if (seat.flag.defined()) seat.check.queue(seat.flag, seat.squares);
  }
  for (const Seat& seat : seats_) {
    seat.step.queue({.flags = flags_.numel() > 0 ? flags_ : Tensor(),
                     .squares = seat.squares,
                     .max_norm = seat.player.max_grad_norm.value_or(0)});
  }
}

UpdateOnDevice::Outcome UpdateOnDevice::finish(std::size_t losses) {
  // The only wait, if there is anything to report.
  const bool tells = flags_.numel() > 0 || losses > 0 ||
                     std::ranges::any_of(seats_, [](const Seat& s) { return s.squares.defined(); });
  const std::vector<std::int32_t> words =
      tells ? words_.to_vector<std::int32_t>() : std::vector<std::int32_t>();
  Outcome outcome;
  look_at_flags(words, outcome);
  outcome.grad_norms.resize(seats_.size());
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (!seats_[i].squares.defined()) continue;
    double squares = 0;
    std::memcpy(&squares, words.data() + 2 * i, sizeof(squares));
    outcome.grad_norms[i] = std::sqrt(squares);
  }
  for (std::size_t i = 0; i < losses; ++i) {
    const auto word = static_cast<std::size_t>(loss_words_.offset()) + i;
    outcome.losses.push_back(std::bit_cast<float>(words[word]));
  }
  for (Seat& seat : seats_) seat.step.finish(outcome.stepped);
  return outcome;
}

void UpdateOnDevice::look_at_flags(std::span<const std::int32_t> words, Outcome& outcome) const {
  outcome.first_bad.resize(seats_.size());
  for (std::int64_t i = 0; i < flags_.numel(); ++i) {
    const std::int32_t flag = words[static_cast<std::size_t>(flags_.offset() + i)];
    if (flag == flat::kNothingBad) continue;
    outcome.stepped = false;
    const auto seat = static_cast<std::size_t>(i);
    if (checks_.gradients && seat < seats_.size()) {
      outcome.first_bad[seat] = seats_[seat].check.tensor_of(flag);
    }
  }
}

}  // namespace mezzo::amp

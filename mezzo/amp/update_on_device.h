// The update of a captured training step, decided on the device.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "mezzo/optim/queued_step.h"

namespace mezzo::amp {

// Checks gradients and losses, clips gradients, and lets optimizers step or skip, in two passes
// over the gradients and without the host in between. So a recording can hold it, and a step need
// not wait for the device in the middle. The host gets the outcome once, after the step, and then
// updates what depends on it, such as the state of a loss scaler. It has to wait for the loss
// anyway, so all devices share this one implementation.
//
//   update.prepare(carried);     // before every launch
//   update.queue(losses);        // this is recorded
//   outcome = update.finish(n);  // waits
//
// Gradients themselves stay scaled and unclipped. The update has the same bits as one whose
// gradients were unscaled and clipped in place before.
class UpdateOnDevice {
 public:
  struct Player {
    optim::Optimizer* optimizer = nullptr;  // must outlive the update
    std::optional<double> max_grad_norm{};
  };
  // The state of the gradients when a step is prepared.
  struct Carried {
    double scale = 1;
    // Whether a gradient is not finite, if that was found before and counts.
    std::optional<bool> is_bad{};
  };
  struct Checks {
    bool gradients = false;  // if one is not finite, no optimizer steps
    bool losses = false;     // if one is not finite, no optimizer steps
    bool operator==(const Checks&) const = default;
  };
  // The outcome of an update.
  struct Outcome {
    std::vector<float> losses{};
    // For each optimizer, the index of the first parameter with a gradient that is not finite.
    std::vector<std::optional<std::size_t>> first_bad{};
    // before clipping, where gradients are clipped
    std::vector<std::optional<double>> grad_norms{};
    bool stepped = true;  // all checks passed
  };

  UpdateOnDevice(std::span<const Player> players, std::size_t most_losses, const Checks& checks);

  // False if the host is needed for these optimizers' gradients or losses. `unscales`: 16-bit
  // gradients are widened before clipping, as scalers do.
  static bool fits(std::span<const Player> players, std::span<const Tensor> losses, bool unscales);

  // `carried`: the state of the gradients of each optimizer. Throws what optimizers' steps throw.
  void prepare(std::span<const Carried> carried);
  // Queues the update. Losses are f32 scalars.
  void queue(std::span<const Tensor> losses) const;
  // Waits for the update. `losses`: the number of losses that were queued.
  Outcome finish(std::size_t losses);

  // For each optimizer, whether it had gradients in the last prepared step.
  const std::vector<bool>& has_gradients() const { return has_gradients_; }

 private:
  // The data of one optimizer.
  struct Seat {
    Player player;
    optim::QueuedStep step;
    QueuedCheck check{};
    Tensor flag{};     // undefined if it is not checked
    Tensor squares{};  // undefined if it is not clipped
  };

  void make_words(Device device);
  void look_at_flags(std::span<const std::int32_t> words, Outcome& outcome) const;

  std::vector<Seat> seats_;
  std::vector<bool> has_gradients_;
  std::size_t most_losses_;
  Checks checks_;
  // On the device, read in one copy: sums of squares (f64), flags (i32) and losses (f32).
  Tensor words_;
  Tensor flags_;
  Tensor loss_words_;
  Tensor loss_flag_;   // undefined if losses are not checked
  Tensor fault_flag_;  // flag of earlier kernels; undefined on the CPU, where they throw
  QueuedCheck loss_check_;
};

}  // namespace mezzo::amp

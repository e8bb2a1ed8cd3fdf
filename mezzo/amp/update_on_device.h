// The update of a captured training step, decided where the numbers are.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "mezzo/optim/queued_step.h"

namespace mezzo::amp {

// Gradients and losses are checked, gradients are clipped, and optimizers step or skip, in two
// passes over the gradients, and without the host in between: a recording can hold it, and a device
// need not be waited for in the middle of a step. The host hears of it once, behind the step. What
// follows, the state of a loss scaler above all, moves on there: the loss has to be waited for
// anyway, and so there is one implementation of it for all devices.
//
//   update.prepare(carried);     // before every launch
//   update.queue(losses);        // what is recorded
//   outcome = update.finish(n);  // waits
//
// Gradients stay as they are, scaled and unclipped. The update has the bits of one with gradients
// that were unscaled and clipped in place before.
class UpdateOnDevice {
 public:
  struct Player {
    optim::Optimizer* optimizer = nullptr;  // which must outlive the update
    std::optional<double> max_grad_norm{};
  };
  // What gradients carry when a step is prepared.
  struct Carried {
    double scale = 1;
    // Whether one is not finite, where that was found out before and counts.
    std::optional<bool> is_bad{};
  };
  struct Checks {
    bool gradients = false;  // if one is not finite, no optimizer steps
    bool losses = false;     // likewise
    bool operator==(const Checks&) const = default;
  };
  // What was found.
  struct Outcome {
    std::vector<float> losses{};
    // Of each optimizer, the index of the first parameter with a gradient that is not finite.
    std::vector<std::optional<std::size_t>> first_bad{};
    std::vector<std::optional<double>> grad_norms{};  // where they are to be clipped, before that
    bool stepped = true;                              // nothing was bad of what was checked
  };

  UpdateOnDevice(std::span<const Player> players, std::size_t most_losses, const Checks& checks);

  // False if the host is needed for something about these optimizers' gradients or losses.
  // `unscales`: gradients of 16 bits are widened before they are clipped, as scalers do.
  static bool fits(std::span<const Player> players, std::span<const Tensor> losses, bool unscales);

  // `carried`: by the gradients of each optimizer. Throws what optimizers' steps throw.
  void prepare(std::span<const Carried> carried);
  // Losses are f32 scalars.
  void queue(std::span<const Tensor> losses) const;
  // `losses`: how many were queued.
  Outcome finish(std::size_t losses);

  // Of each optimizer, in the step that was prepared last.
  const std::vector<bool>& has_gradients() const { return has_gradients_; }

 private:
  // What belongs to one optimizer.
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
  Tensor fault_flag_;  // of kernels that came before; undefined on the CPU, where they throw
  QueuedCheck loss_check_;
};

}  // namespace mezzo::amp

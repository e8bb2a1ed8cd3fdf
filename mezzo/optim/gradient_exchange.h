// The gradients of processes that train together, exchanged while the backward pass goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "mezzo/autograd/leaf_listener.h"
#include "mezzo/core/tensor.h"
#include "mezzo/distributed/process_group.h"
#include "mezzo/optim/gradient_bucket.h"

namespace mezzo::optim {

// Gives every process of a group the mean of all processes' gradients, or of its parts of them.
//
//   exchange->begin(kind);
//   { const ListenToLeaves sending(exchange.get()); loss.backward(); }
//   exchange->finish({});
//
// Parameters are put into buckets, the last ones first, because a backward pass completes their
// gradients first. A bucket is sent as soon as its gradients are complete and the buckets before it
// have been sent, so all processes send in the same order. What is not complete when the backward
// pass ends, for example because a parameter was not used, is sent by finish(). Elements are summed
// in the order of the processes.
//
// In a captured step, sending and finishing are noted as host work.
class GradientExchange final : public LeafListener,
                               public std::enable_shared_from_this<GradientExchange> {
 public:
  enum class Kind : std::uint8_t {
    kWhole,  // each gradient becomes the mean of all processes' gradients, in f32
    kParts,  // the gradient of each part becomes that of its elements, and whole ones are dropped
  };

  // `parts`: this process's parts of the parameters, or empty. Gradients cross the network in
  // `reduce_dtype`: f32, bf16 or f16; throws ArgumentError for others. The group must outlive it.
  static std::shared_ptr<GradientExchange> make(std::span<const Tensor> params,
                                                std::span<const Tensor> parts,
                                                distributed::ProcessGroup& group,
                                                DType reduce_dtype);

  // The number of parameters.
  std::size_t params() const { return params_.size(); }
  bool has_parts() const { return has_parts_; }

  void begin(Kind kind);
  void on_complete(const Tensor& leaf) override;
  // A number that must be the same in all processes, such as the loss scale. explain() is called in
  // all of them if it may not be, and should throw. Both may be empty.
  struct Note {
    std::function<double()> number{};
    std::function<void()> explain{};
  };
  // Throws ArgumentError in every process unless all have gradients of the same parameters, in the
  // same layouts; nothing has been updated then.
  void finish(Note note);
  // After an exception: waits for what was sent, and forgets it.
  void abandon() noexcept;

 private:
  GradientExchange(std::span<const Tensor> params, std::span<const Tensor> parts,
                   distributed::ProcessGroup& group, DType reduce_dtype);

  void note_send(std::size_t bucket);
  void send(std::size_t bucket, Kind kind, bool posts);
  void finish_now(std::size_t first, Kind kind, const Note& note);
  void check_params() const;
  void check_same(const Note& note) const;

  distributed::ProcessGroup& group_;
  std::vector<Tensor> params_;
  std::vector<std::unique_ptr<GradientBucket>> buckets_;
  std::unordered_map<const TensorImpl*, std::size_t> place_of_;  // in which bucket
  bool has_parts_;
  bool is_checked_ = false;  // check_params() was called
  // While a step is computed or captured:
  Kind kind_ = Kind::kWhole;
  std::size_t next_ = 0;           // the first bucket that was not sent
  std::vector<std::size_t> left_;  // for each bucket, the gradients that are not complete
};

}  // namespace mezzo::optim

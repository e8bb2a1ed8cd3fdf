// The batch of a training step or an evaluation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo {

// Tensors [n, ...] of n examples. An undefined one was left out.
struct Batch {
  nn::Tensors inputs{};  // of the network, in its order
  nn::Tensors labels{};  // whatever the loss compares the network's results with
  // A loss may set it, for metrics, which compare it with the first of the labels.
  Tensor output{};

  // n: the size of the first axis of the first tensor; 1 for a scalar. Throws ArgumentError if
  // there is no tensor.
  std::int64_t size() const;
  // Throws ArgumentError unless all tensors have n rows.
  void check_rows() const;
  // The examples [begin, end).
  Batch slice(std::int64_t begin, std::int64_t end) const;
  // The batch on a device.
  Batch to(Device device) const;
};

namespace amp {

// Which tensors a batch has: `true` for each that is defined.
struct BatchLayout {
  std::vector<bool> inputs{};
  std::vector<bool> labels{};

  bool operator==(const BatchLayout&) const = default;
};
BatchLayout layout_of(const Batch& batch);
// The tensors that are defined, inputs first.
nn::Tensors tensors_of(const Batch& batch);
// The inverse of both: the batch of these tensors.
Batch batch_of(const BatchLayout& layout, std::span<const Tensor> tensors);

}  // namespace amp
}  // namespace mezzo

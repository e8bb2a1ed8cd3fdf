// The probabilities of attention, for its reference kernels.
#pragma once

#include <cmath>
#include <limits>

#include "mezzo/core/random.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/attention_attrs.h"

namespace mezzo::kernels::ref {

// One query of one head.
struct AttentionRow {
  std::int64_t sample = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;
};

// The operands of a call; the inputs q, k, v and mask have the numbers from `first` on.
class AttentionRows {
 public:
  AttentionRows(const RefArgs& args, std::size_t first, std::size_t start)
      : q_(args.inputs[first]),
        k_(args.inputs[first + 1]),
        mask_(args.has(first + 3) ? args.inputs[first + 3] : RefTensor{}),
        attrs_(args.attrs<AttentionAttrs>()),
        sizes_(q_.shape, k_.shape, args.inputs[first + 2].shape),
        place_(attrs_.as_dropout().place(args.has(start) ? args.inputs[start].data : nullptr)) {}

  const AttentionSizes& sizes() const { return sizes_; }
  double scale() const { return attrs_.scale; }

  // Offsets of a row's query in q, and of key j of its head in k.
  std::int64_t query_at(const AttentionRow& row) const {
    return ((row.sample * sizes_.queries + row.query) * sizes_.heads + row.head) * sizes_.features;
  }
  std::int64_t key_at(const AttentionRow& row, std::int64_t j) const {
    return key_row(row, j) * sizes_.features;
  }
  // Offsets of the row's result, and of value j of its head.
  std::int64_t result_at(const AttentionRow& row) const {
    return ((row.sample * sizes_.queries + row.query) * sizes_.heads + row.head) * sizes_.values;
  }
  std::int64_t value_at(const AttentionRow& row, std::int64_t j) const {
    return key_row(row, j) * sizes_.values;
  }
  std::int64_t lse_at(const AttentionRow& row) const {
    return (row.sample * sizes_.heads + row.head) * sizes_.queries + row.query;
  }

  // The score of key j; -inf if it is hidden.
  double score(const AttentionRow& row, std::int64_t j) const {
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    if (j >= sizes_.visible(row.query, attrs_.causal)) return kHidden;
    double sum = 0;
    for (std::int64_t c = 0; c < sizes_.features; ++c) {
      sum += q_[query_at(row) + c] * k_[key_at(row, j) + c];
    }
    sum *= attrs_.scale;
    if (mask_.data == nullptr) return sum;
    const double entry = mask_[broadcast_offset({row.sample, row.head, row.query, j}, mask_)];
    if (mask_.dtype == DType::kBool) return entry != 0 ? sum : kHidden;
    return sum + entry;
  }

  // What dropout multiplies the probability of key j by.
  double kept(const AttentionRow& row, std::int64_t j) const {
    if (!attrs_.drops()) return 1;
    Generator generator;
    const std::uint64_t word = sizes_.word(row.sample, row.head, row.query);
    generator.set_position({place_.seed, place_.offset + word + static_cast<std::uint64_t>(j)});
    return generator.uniform() < attrs_.dropout ? 0 : 1 / (1 - attrs_.dropout);
  }

  template <class Body>
  void for_each(const Body& body) const {
    for (std::int64_t sample = 0; sample < sizes_.batch; ++sample) {
      for (std::int64_t head = 0; head < sizes_.heads; ++head) {
        for (std::int64_t i = 0; i < sizes_.queries; ++i) body(AttentionRow{sample, head, i});
      }
    }
  }

 private:
  std::int64_t key_row(const AttentionRow& row, std::int64_t j) const {
    return (row.sample * sizes_.keys + j) * sizes_.key_heads + row.head / sizes_.group();
  }

  const RefTensor& q_;
  const RefTensor& k_;
  RefTensor mask_;
  const AttentionAttrs& attrs_;
  AttentionSizes sizes_;
  RandomPosition place_;
};

}  // namespace mezzo::kernels::ref

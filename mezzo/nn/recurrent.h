// Recurrent layers: LSTM and GRU.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/nn/module.h"
#include "mezzo/ops/recurrent.h"

namespace mezzo::nn {

struct RecurrentLayers {
  std::int64_t layers = 1;  // each reads the results of the one below it
  bool bidirectional = false;
  bool bias = true;
  // In training, results of all layers but the last pass through dropout with this probability.
  double dropout = 0;
};

// What Lstm and Gru have in common. Parameters have PyTorch's names, so that its states load:
// `weight_ih_l0` [gates * h, in], `weight_hh_l0` [gates * h, h], `bias_ih_l0` and `bias_hh_l0`
// [gates * h] for each layer, with `_reverse` at the end for the second direction. They begin
// uniform in +-1 / sqrt(h), as PyTorch's do, and are f32.
class Recurrent : public Module {
 public:
  // x: [b, t, in], a batch of sequences (PyTorch's batch_first=True). The result, [b, t, d * h] of
  // d directions, has the states of the last layer after every step, those of the second direction
  // after those of the first.
  Tensor forward(const Tensor& x) override;

  std::int64_t in_features() const { return in_; }
  std::int64_t hidden_size() const { return hidden_; }
  std::int64_t directions() const { return options_.bidirectional ? 2 : 1; }
  const RecurrentLayers& options() const { return options_; }

 protected:
  struct Kind {
    const char* name;
    std::int64_t gates;
    bool has_cell;
    RecurrentResult (*run)(const Tensor& gates, const RecurrentWeights& weights,
                           const RecurrentOptions& options);
  };
  Recurrent(const Kind& kind, std::int64_t in_features, std::int64_t hidden_size,
            const RecurrentLayers& options);

  struct States {
    Tensor lengths;
    Tensor hidden;
    Tensor cell;
  };
  // The result of forward(), followed by the last hidden states and, if there are any, cell states.
  Tensors run_layers(const Tensor& x, const States& given);

 private:
  struct Direction {
    Tensor weight_ih;
    Tensor weight_hh;
    Tensor bias_ih;
    Tensor bias_hh;
  };
  void add_direction(std::int64_t layer, std::int64_t direction);
  void check_input(const Tensor& x, const States& given) const;

  Kind kind_;
  std::int64_t in_;
  std::int64_t hidden_;
  RecurrentLayers options_;
  std::vector<Direction> weights_;  // [layer * directions + direction]
};

// Long short-term memory; see lstm() in mezzo/ops/recurrent.h. The rows of the weights are those of
// the gates i, f, g and o.
//
// Called with a tensor, the result is that of Recurrent::forward(). Called with a list of tensors,
// lstm({x, lengths, h0, c0}), of which all but the first may be undefined or left out (with x alone
// it is lstm(Tensors{x})), the results are {sequence, h_n, c_n}:
//   lengths   integers [b] from 0 to t. Results past the end of a sequence are 0. What x holds
//             there must be finite, and has no influence. The steps of a sequence do not depend on
//             other sequences; the product with x may add up in another order for another number of
//             rows.
//   h0, c0    [layers * d, b, h]: the states before the first step; zeros if undefined
//   h_n, c_n  the same after the last step of each sequence, in f32
//
// Throws ArgumentError for sizes that are not positive, a dropout outside [0, 1] and, when called,
// for shapes that do not fit.
class Lstm : public Recurrent {
 public:
  Lstm(std::int64_t in_features, std::int64_t hidden_size, const RecurrentLayers& options = {});

  Tensors forward_all(const Tensors& inputs) override;
};

// Gated recurrent units; see gru() in mezzo/ops/recurrent.h. The rows of the weights are those of
// the gates r, z and n. Like Lstm, but without cell states: gru({x, lengths, h0}) gives
// {sequence, h_n}.
class Gru : public Recurrent {
 public:
  Gru(std::int64_t in_features, std::int64_t hidden_size, const RecurrentLayers& options = {});

  Tensors forward_all(const Tensors& inputs) override;
};

}  // namespace mezzo::nn

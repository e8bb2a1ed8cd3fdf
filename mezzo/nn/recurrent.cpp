#include "mezzo/nn/recurrent.h"

#include <cmath>

#include "mezzo/nn/init.h"
#include "mezzo/nn/optional_input.h"
#include "mezzo/ops/dropout.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/rearrange.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::nn {
namespace {

// Row i of [n, b, h] as [b, h]; undefined if there is none.
Tensor state_at(const Tensor& states, std::int64_t i) {
  if (!states.defined()) return {};
  return reshape(slice(states, 0, i, i + 1), {states.shape()[1], states.shape()[2]});
}

}  // namespace

Recurrent::Recurrent(const Kind& kind, std::int64_t in_features, std::int64_t hidden_size,
                     const RecurrentLayers& options)
    : kind_(kind), in_(in_features), hidden_(hidden_size), options_(options) {
  check_arg(in_ > 0 && hidden_ > 0 && options_.layers > 0, kind_.name,
            "sizes must be positive: from ", in_, " to ", hidden_, " in ", options_.layers,
            " layers");
  check_arg(options_.dropout >= 0 && options_.dropout <= 1, kind_.name,
            "the probability of dropout must be in [0, 1], not ", options_.dropout);
  // The module keeps pointers to its parameters, so they must not move.
  weights_.resize(static_cast<std::size_t>(options_.layers * directions()));
  for (std::int64_t layer = 0; layer < options_.layers; ++layer) {
    for (std::int64_t d = 0; d < directions(); ++d) add_direction(layer, d);
  }
}

void Recurrent::add_direction(std::int64_t layer, std::int64_t direction) {
  Direction& w = weights_[static_cast<std::size_t>(layer * directions() + direction)];
  const std::int64_t in = layer == 0 ? in_ : hidden_ * directions();
  const std::int64_t rows = kind_.gates * hidden_;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_));
  const auto add_uniform = [&](const char* name, const Shape& shape, Tensor& parameter) {
    parameter = empty(shape);
    init::uniform(parameter, -bound, bound);
    add_parameter(concat(name, "_l", layer, direction == 1 ? "_reverse" : ""), parameter);
  };
  add_uniform("weight_ih", {rows, in}, w.weight_ih);
  add_uniform("weight_hh", {rows, hidden_}, w.weight_hh);
  if (!options_.bias) return;
  add_uniform("bias_ih", {rows}, w.bias_ih);
  add_uniform("bias_hh", {rows}, w.bias_hh);
}

void Recurrent::check_input(const Tensor& x, const States& given) const {
  check_arg(x.defined() && x.rank() == 3 && x.shape()[2] == in_, kind_.name,
            "x must have the shape [b, t, ", in_, "], it ",
            x.defined() ? concat("has ", x.shape()) : "is undefined",
            ". Give sequences with as many features as the layer has");
  const Shape wanted{options_.layers * directions(), x.shape()[0], hidden_};
  for (const Tensor* state : {&given.hidden, &given.cell}) {
    check_arg(!state->defined() || state->shape() == wanted, kind_.name,
              "initial states must have the shape ", wanted, ", not ",
              state->defined() ? state->shape() : Shape{}, ". Give one per layer and direction");
  }
}

Tensors Recurrent::run_layers(const Tensor& x, const States& given) {
  check_input(x, given);
  Tensor sequence = x;
  Tensors hidden;
  Tensors cell;
  for (std::int64_t layer = 0; layer < options_.layers; ++layer) {
    if (layer > 0) sequence = dropout(sequence, options_.dropout, is_training());
    Tensors parts;
    for (std::int64_t d = 0; d < directions(); ++d) {
      const std::int64_t i = layer * directions() + d;
      const Direction& w = weights_[static_cast<std::size_t>(i)];
      // One product for all steps: its weight is read once, not once per step.
      const Tensor gates = linear(sequence, w.weight_ih, w.bias_ih);
      RecurrentResult result = kind_.run(gates, {w.weight_hh, w.bias_hh},
                                         {.lengths = given.lengths,
                                          .hidden = state_at(given.hidden, i),
                                          .cell = state_at(given.cell, i),
                                          .reverse = d == 1});
      parts.push_back(std::move(result.sequence));
      hidden.push_back(std::move(result.hidden));
      if (kind_.has_cell) cell.push_back(std::move(result.cell));
    }
    sequence = parts.size() == 1 ? parts[0] : cat(parts, 2);
  }
  Tensors results{sequence, stack(hidden)};
  if (kind_.has_cell) results.push_back(stack(cell));
  return results;
}

Tensor Recurrent::forward(const Tensor& x) { return run_layers(x, {})[0]; }

Lstm::Lstm(std::int64_t in_features, std::int64_t hidden_size, const RecurrentLayers& options)
    : Recurrent({"Lstm", 4, true, lstm}, in_features, hidden_size, options) {}

Tensors Lstm::forward_all(const Tensors& inputs) {
  check_arg(!inputs.empty() && inputs.size() <= 4, "Lstm", "there are ", inputs.size(),
            " inputs. Give x, lengths, h0 and c0, of which all but the first may be left out");
  return run_layers(inputs[0],
                    {input_or_none(inputs, 1), input_or_none(inputs, 2), input_or_none(inputs, 3)});
}

Gru::Gru(std::int64_t in_features, std::int64_t hidden_size, const RecurrentLayers& options)
    : Recurrent({"Gru", 3, false, gru}, in_features, hidden_size, options) {}

Tensors Gru::forward_all(const Tensors& inputs) {
  check_arg(!inputs.empty() && inputs.size() <= 3, "Gru", "there are ", inputs.size(),
            " inputs. Give x, lengths and h0, of which all but the first may be left out");
  return run_layers(inputs[0], {input_or_none(inputs, 1), input_or_none(inputs, 2), Tensor()});
}

}  // namespace mezzo::nn

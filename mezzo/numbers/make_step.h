// A forward and a backward pass that an observer sees like a training step, and networks in f64.
#pragma once

#include <optional>

#include "mezzo/amp/batch.h"
#include "mezzo/amp/loss_function.h"
#include "mezzo/amp/policy.h"
#include "mezzo/amp/step_observer.h"
#include "mezzo/nn/module.h"

namespace mezzo::numbers {

// Makes a forward and a backward pass of a network with one output, without loss scaling and
// without an update, and returns the loss. The observer is told of everything that a training step
// would tell. An f64 output is not narrowed for the loss. Gradients are dropped before and
// afterwards.
double make_step(nn::Module& net, const amp::LossFunction& loss, const Batch& batch,
                 amp::StepObserver& observer, const std::optional<amp::Policy>& policy = {});

// Replaces all floating-point parameters and buffers of a network by their values in f64. What it
// computes of f64 inputs is then in f64, by the reference kernels: plain loops that are right to
// the last bits of f32, and far slower. Returns the network. Shared parameters stay shared.
//
//   numbers::to_f64(net);
//   numbers::make_step(net, loss, numbers::to_f64(batch), observer);
nn::Module& to_f64(nn::Module& net);
// Floating-point tensors in f64, others as they are.
Batch to_f64(const Batch& batch);

}  // namespace mezzo::numbers

// Batch normalization layers.
#pragma once

#include <cstdint>

#include "mezzo/distributed/process_group.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

struct BatchNormOptions {
  double eps = 1e-5;      // added to the variance
  double momentum = 0.1;  // the weight of the new value in the running statistics
};

// Normalises each channel of x to mean 0 and variance 1, then scales it by `weight` [c] and shifts
// it by `bias` [c], which begin as 1 and 0.
//
// In training the statistics are those of the batch, and the buffers `running_mean` (begins as 0),
// `running_var` (begins as 1; unbiased) and `num_batches_tracked` are updated with them. Otherwise
// the running statistics are used. Parameters and statistics are f32 whatever the dtype of x,
// because a sum of squares over a batch exceeds the range or the precision of any 16-bit type.
// (amp::half_parameters() may make the parameters 16-bit; everything is still computed in f32.)
class BatchNorm : public Module {
 public:
  // Throws ArgumentError unless channels > 0.
  explicit BatchNorm(std::int64_t channels, BatchNormOptions options = {});

  // The result has the shape and dtype of x. Throws ArgumentError unless x is f32 or in 16 bits,
  // and has the layer's rank and number of channels, and in training for less than two values per
  // channel.
  Tensor forward(const Tensor& x) override;
  // relu(forward(x)), in one pass over memory.
  Tensor forward_relu(const Tensor& x);
  // relu(forward(x) + residual), in one pass over memory; the residual has the shape of x.
  Tensor forward_add_relu(const Tensor& x, const Tensor& residual);

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }
  const Tensor& running_mean() const { return running_mean_; }
  const Tensor& running_var() const { return running_var_; }
  const BatchNormOptions& options() const { return options_; }

  // The processes whose batches share statistics in training: see convert_sync_batchnorm(). Null,
  // the default: this process alone.
  void set_processes(distributed::ProcessGroup* processes) { processes_ = processes; }
  distributed::ProcessGroup* processes() const { return processes_; }

 protected:
  // Throws ArgumentError naming the layer unless x has the right rank.
  virtual void check_input(const Tensor& x) const = 0;

 private:
  Tensor normalize(const Tensor& x, bool relu, const Tensor& residual);
  // The host's part of updating the running statistics.
  void count_batch() const;

  BatchNormOptions options_;
  distributed::ProcessGroup* processes_ = nullptr;
  Tensor weight_;
  Tensor bias_;
  Tensor running_mean_;
  Tensor running_var_;
  Tensor num_batches_tracked_;
};

// For x [n, c, h, w]: statistics over n, h and w.
class BatchNorm2d : public BatchNorm {
 public:
  using BatchNorm::BatchNorm;

 protected:
  void check_input(const Tensor& x) const override;
};

// For x [n, c]: statistics over n.
class BatchNorm1d : public BatchNorm {
 public:
  using BatchNorm::BatchNorm;

 protected:
  void check_input(const Tensor& x) const override;
};

// Synchronized batch normalization, like torch.nn.SyncBatchNorm.convert_sync_batchnorm(). From now
// on, all batch normalization in training uses the statistics of the batches of all these
// processes, as if one process had all their images. The gradients and the running statistics
// follow, with the same bits in every process. This is for batches so small that their own
// statistics are poor. Each layer exchanges data twice per step, 16 bytes per channel and process,
// for which a card without a device engine is waited for. Names and state of the network do not
// change. Call it in every process before the first step; `processes` must outlive the training.
// All processes must have the same number of values per channel, or all throw ArgumentError.
// Returns the number of layers.
std::int64_t convert_sync_batchnorm(Module& net, distributed::ProcessGroup& processes);

}  // namespace mezzo::nn

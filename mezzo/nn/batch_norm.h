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
// `running_var` (begins as 1; unbiased) and `num_batches_tracked` follow them; else the running
// statistics are used. Parameters and statistics are f32 whatever the dtype of x, because the sum
// of a batch of squares neither fits into f16 nor into the 8 bits of bf16. (The parameters may be
// made 16-bit by amp::half_parameters(); everything is computed in f32 all the same.)
class BatchNorm : public Module {
 public:
  // Throws ArgumentError unless channels > 0.
  explicit BatchNorm(std::int64_t channels, BatchNormOptions options = {});

  // The result has the shape and dtype of x. Throws ArgumentError unless x is f32, bf16 or f16, of
  // the layer's rank and of as many channels, and in training for less than two values per channel.
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

  // Whose batches have common statistics in training: see convert_sync_batchnorm(). Null, as at
  // first: this process's alone.
  void set_processes(distributed::ProcessGroup* processes) { processes_ = processes; }
  distributed::ProcessGroup* processes() const { return processes_; }

 protected:
  // Throws ArgumentError naming the layer unless x has the right rank.
  virtual void check_input(const Tensor& x) const = 0;

 private:
  Tensor normalize(const Tensor& x, bool relu, const Tensor& residual);
  // What the host does where the running statistics move on.
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

// Synchronized batch normalization, as torch.nn.SyncBatchNorm.convert_sync_batchnorm() has it: from
// now on, in training, all batch normalization of the network is by the statistics of the batches
// of all these processes, as that of one process with all their images, and so are the gradients
// and the running statistics, with the same bits in every process. For batches so small that their
// own statistics are poor. Each layer has two exchanges in a step, of 16 bytes per channel and
// process. Names and state of the network stay as they are. To be called in every process, before
// the first step; `processes` must outlive the training. On CPUs; each process has as many values
// per channel, or all get an ArgumentError. Returns the number of layers.
std::int64_t convert_sync_batchnorm(Module& net, distributed::ProcessGroup& processes);

}  // namespace mezzo::nn

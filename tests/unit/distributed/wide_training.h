// Trainings of a network that is large enough for several buckets of gradients, and for parts of
// its parameters in several processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "mezzo/amp/train_step.h"
#include "mezzo/nn/linear.h"
#include "mezzo/optim/adam.h"
#include "tests/unit/distributed/processes.h"

namespace mezzo::test {

// Two hidden layers; `hidden` = 1100 gives gradients of 9.2 MB, in three buckets.
class WideNet : public nn::Module {
 public:
  explicit WideNet(std::int64_t hidden);
  Tensor forward(const Tensor& x) override;

 private:
  nn::Linear first_;
  nn::Linear second_;
  nn::Linear last_;
};

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;

struct WideKind {
  std::int64_t hidden = 96;
  amp::Level level = amp::Level::kO0;
  DType dtype = DType::kBf16;
  // The dtype of the parameters themselves.
  DType params = DType::kF32;
  bool graph = false;
  double scale = 0;                   // of the loss; 0: no scaling
  MakeOptimizer optimizer = nullptr;  // null: AdamW
  int steps = 4;
  amp::TrainStepOptions options{};
};

// What a training leaves.
struct WideEnd {
  std::vector<std::vector<double>> params;
  std::vector<double> losses;
  std::vector<double> scales;
  std::vector<double> norms;
  std::vector<bool> skipped;
  std::vector<std::string> first_bad;
  std::size_t state_bytes = 0;  // of the optimizer of this process
  std::int64_t bytes_sent = 0;  // by this process
  bool operator==(const WideEnd&) const = default;

  // What must not depend on how the work is shared.
  auto result() const { return std::tie(params, losses, scales, skipped, first_bad); }
};

// Changes the images of a step in one process.
using Spoil = std::function<void(int step, int rank, Tensor& images)>;

// On batches of 12 examples, of which each process has its part; a group of null is one process.
WideEnd train_wide(const WideKind& kind, distributed::ProcessGroup* group,
                   const Spoil& spoil = nullptr);
// The same in several processes.
std::vector<WideEnd> train_wide_together(int processes, const WideKind& kind,
                                         const Spoil& spoil = nullptr);

}  // namespace mezzo::test

// The same training in eager mode and in graph mode, compared step by step.
#pragma once

#include <cmath>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"

namespace mezzo::graph {

using amp::Batch;
using amp::TrainStepResult;

inline std::unique_ptr<amp::SmallNet> small_net() { return std::make_unique<amp::SmallNet>(); }
inline const optim::SgdOptions kSgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3};

// The same training twice, once eagerly and once in graph mode.
template <class Net, class Optimizer = optim::Sgd>
class Twins {
 public:
  // Steps made from one manager would share its scale.
  template <class MakeNet, class Options>
  Twins(const MakeNet& make_net, const Options& options, const amp::TrainNetworkOptions& amp,
        const std::optional<amp::LossScaleOptions>& scaling = std::nullopt,
        const amp::LossFunction& loss = amp::class_loss, const RecordOptions& record = {})
      : eager_(make_net, options, with(amp, scaling), loss),
        graph_(make_net, options, with(amp, scaling), loss) {
    graph_.step.set_execution(captured(*graph_.net, record));
  }

  // Runs one step of both and expects the same results.
  TrainStepResult step(const Batch& batch) {
    manual_seed(++seed_);
    const TrainStepResult eager = eager_.step(batch.images, batch.labels);
    const RandomPosition position = default_generator().position();
    manual_seed(seed_);
    const TrainStepResult graph = graph_.step(batch.images, batch.labels);
    EXPECT_EQ(default_generator().position(), position);
    EXPECT_TRUE(graph.loss == eager.loss || (std::isnan(graph.loss) && std::isnan(eager.loss)));
    EXPECT_EQ(graph.skipped, eager.skipped);
    EXPECT_EQ(graph.overflow, eager.overflow);
    EXPECT_EQ(graph.first_bad, eager.first_bad);
    EXPECT_EQ(graph.next_scale, eager.next_scale);
    EXPECT_EQ(graph.grad_norm, eager.grad_norm);
    return graph;
  }

  nn::Module& eager_net() { return *eager_.net; }
  nn::Module& graph_net() { return *graph_.net; }

  void expect_same_state() const {
    EXPECT_TRUE(amp::everything(*graph_.net, graph_.optimizer) ==
                amp::everything(*eager_.net, eager_.optimizer));
  }

 private:
  static amp::TrainNetworkOptions with(amp::TrainNetworkOptions amp,
                                       const std::optional<amp::LossScaleOptions>& scaling) {
    if (scaling.has_value()) amp.loss_scale_manager = amp::LossScaleManager(*scaling);
    return amp;
  }

  struct One {
    template <class MakeNet, class Options>
    One(const MakeNet& make_net, const Options& options, const amp::TrainNetworkOptions& amp,
        const amp::LossFunction& loss)
        : net((manual_seed(11), make_net())),
          optimizer(net->parameters(), options),
          step(amp::build_train_network(*net, loss, optimizer, amp)) {}

    std::unique_ptr<Net> net;
    Optimizer optimizer;
    amp::TrainStep step;
  };

  One eager_;
  One graph_;
  std::uint64_t seed_ = 100;
};

}  // namespace mezzo::graph

// The checks on which processes that train together agree before they begin.
#include <algorithm>

#include "mezzo/core/log.h"
#include "mezzo/core/random.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/io/crc32c.h"
#include "mezzo/train/fit.h"
#include "mezzo/train/model_checkpoint.h"

namespace mezzo::train {
namespace {

constexpr int kSeedBits = 40;  // seeds that people choose have fewer bits

void move_stream(std::uint64_t distance) {
  RandomPosition position = default_generator().position();
  position.seed ^= distance;
  default_generator().set_position(position);
}

void check_loaders(const Fit& fit, const auto& check) {
  const data::BatchOrder& order = fit.loader.order();
  check("the number of steps of an epoch", fit.state.steps_per_epoch);
  check("the batch size", order.batch_size);
  if (order.shard.count != fit.processes()->size()) return;  // each may have its own data set
  check("the number of examples", order.examples);
  check("shuffling (1) or not (0)", order.shuffle ? 1 : 0);
  const std::string sampler = order.sampler != nullptr ? order.sampler->description() : "";
  check("the sampler of the loader (a checksum)", io::crc32c(sampler));
  check("the seed of the loader (its upper half)", static_cast<std::int64_t>(order.seed >> 32));
  check("the seed of the loader (its lower half)",
        static_cast<std::int64_t>(order.seed & 0xffffffffU));
}

}  // namespace

OwnRandomStream::OwnRandomStream(const distributed::ProcessGroup* processes)
    : distance_(processes != nullptr ? static_cast<std::uint64_t>(processes->rank()) << kSeedBits
                                     : 0) {
  move_stream(distance_);
}

OwnRandomStream::~OwnRandomStream() { move_stream(distance_); }

void check_together(const Fit& fit) {
  distributed::ProcessGroup& processes = *fit.processes();
  const data::BatchOrder& order = fit.loader.order();
  const auto check = [&](const char* what, std::int64_t value) {
    distributed::check_same(processes, "Model", what, static_cast<double>(value),
                            "Give every process the same data set, options and folder of "
                            "checkpoints, and its shard");
  };
  check("the step after which training begins", fit.state.step);
  check("the step that training ends with", fit.state.total_steps);
  check_loaders(fit, check);
  if (fit.model.optimizer().is_sharded()) {
    // The parts of all come into each checkpoint.
    check("the number of callbacks that write checkpoints",
          std::ranges::count_if(fit.options.callbacks, [](const Callback* callback) {
            return dynamic_cast<const ModelCheckpoint*>(callback) != nullptr;
          }));
  }
  distributed::check_same(processes, "Model", "the learning rate", fit.model.optimizer().lr(),
                          "Give every process the same optimizer and learning rates");
  check("the number of shards that are validated",
        fit.state.has_validation ? fit.options.validation->order().shard.count : 0);
  check_arg(order.drop_remainder || order.epoch_size() % order.step_size() == 0, "Model",
            "the last batch of an epoch is not full, and processes that train together "
            "would have parts of different sizes. Use drop_remainder");
  if (order.shard.count != processes.size()) {
    logging::warn_once(concat("[Model] ", processes.size(), " processes train on ",
                              order.shard.count,
                              " shards: on the same examples, unless each has its own data set. "
                              "Give the loader shard_of(processes)"));
  }
}

}  // namespace mezzo::train

#include "mezzo/train/model.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/log.h"
#include "mezzo/core/random.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/distributed/average.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/nn/inference.h"
#include "mezzo/ops/cast.h"
#include "mezzo/optim/learning_rate.h"
#include "mezzo/train/checkpointing.h"

namespace mezzo::train {
namespace {

constexpr const char* kProgress = "progress";
constexpr const char* kMetrics = "metrics";

std::map<std::string, double> metrics_in(const io::Checkpoint& checkpoint) {
  std::map<std::string, double> metrics;
  const auto section = checkpoint.values.find(kMetrics);
  if (section == checkpoint.values.end()) return metrics;
  for (const auto& [name, value] : section->second) {
    metrics[name] = checkpoint.value<double>(kMetrics, name);
  }
  return metrics;
}

// While it exists, each process takes random numbers of a stream of its own: dropout that leaves
// out the same in all of them would be one example's worth of it. Process 0, which writes
// checkpoints, stays with the stream of one that trains alone.
class OwnRandomStream {
 public:
  explicit OwnRandomStream(const distributed::ProcessGroup* processes)
      : distance_(processes != nullptr ? static_cast<std::uint64_t>(processes->rank()) << kSeedBits
                                       : 0) {
    move(distance_);
  }
  ~OwnRandomStream() { move(distance_); }
  OwnRandomStream(const OwnRandomStream&) = delete;
  OwnRandomStream& operator=(const OwnRandomStream&) = delete;

 private:
  static constexpr int kSeedBits = 40;  // seeds that people choose have fewer

  static void move(std::uint64_t distance) {
    RandomPosition position = default_generator().position();
    position.seed ^= distance;
    default_generator().set_position(position);
  }

  std::uint64_t distance_;
};

// The loop of fit().
class Loop {
 public:
  Loop(Model& model, data::BatchSource& loader, const FitOptions& options)
      : model_(model), loader_(loader), options_(options), state_{.model = model} {
    state_.steps_per_epoch = loader.steps_per_epoch();
    check_arg(std::ranges::count(options.callbacks, nullptr) == 0, "Model",
              "a callback is null. Leave it out");
    number_by_class(options.callbacks);
    model.train_step().check_optimizer();
    check_rates();
    state_.has_validation = options.validation != nullptr;
    state_.capture = [this] { return capture_all(); };
  }

  FitResult run(std::int64_t epochs) {
    if (!resume()) go_to_next_epoch();
    const OwnRandomStream stream(processes());
    const std::int64_t in_epoch = loader_.position().step;
    state_.total_steps = last_step(epochs, in_epoch);
    if (processes() != nullptr) check_together();
    check_arg(state_.steps_per_epoch >= 1, "Model", "an epoch has no batch for shard ",
              loader_.order().shard.index, " of ", loader_.order().shard.count,
              ". Use fewer shards, or smaller batches");
    state_.step_in_epoch = in_epoch;
    state_.lr = model_.optimizer().lr();
    check_callbacks();
    each(&Callback::on_train_begin);
    agree_to_stop();
    while (!state_.stop && (state_.step < state_.total_steps || is_at_end())) run_epoch();
    each(&Callback::on_train_end);
    if (processes() != nullptr) distributed::meet(*processes());  // the last checkpoint is written
    // An epoch that a resumed run stands in has begun, if it was left to go on or not.
    const bool stands_within = state_.epoch == epochs_done_ && state_.step_in_epoch > 0;
    return {.epochs = state_.epoch + (stands_within ? 1 : 0),
            .steps = state_.step,
            .skipped_steps = state_.skipped_steps,
            .stopped = state_.stop,
            .metrics = state_.metrics};
  }

 private:
  distributed::ProcessGroup* processes() const { return model_.train_step().options().processes; }

  // What would end with processes that wait for each other, or that all do the same.
  void check_together() {
    const data::BatchOrder& order = loader_.order();
    const auto check = [&](const char* what, std::int64_t value) {
      distributed::check_same(*processes(), "Model", what, static_cast<double>(value),
                              "Give every process the same data set, options and folder of "
                              "checkpoints, and its shard");
    };
    check("the step that training begins behind", state_.step);
    check("the step that training ends with", state_.total_steps);
    check("the number of steps of an epoch", state_.steps_per_epoch);
    check("the batch size", order.batch_size);
    if (order.shard.count == processes()->size()) {  // else each may have a data set of its own
      check("the number of examples", order.examples);
      check("shuffling (1) or not (0)", order.shuffle ? 1 : 0);
      check("the seed of the loader (its upper half)", static_cast<std::int64_t>(order.seed >> 32));
      check("the seed of the loader (its lower half)",
            static_cast<std::int64_t>(order.seed & 0xffffffffU));
    }
    distributed::check_same(*processes(), "Model", "the learning rate", model_.optimizer().lr(),
                            "Give every process the same optimizer and rates");
    check("the number of shards that are validated",
          state_.has_validation ? options_.validation->order().shard.count : 0);
    check_arg(order.drop_remainder || order.examples % (order.batch_size * order.shard.count) == 0,
              "Model",
              "the last batch of an epoch is not full, and processes that train together "
              "would have parts of different sizes. Use drop_remainder");
    if (order.shard.count != processes()->size()) {
      logging::warn_once(concat("[Model] ", processes()->size(), " processes train on ",
                                order.shard.count,
                                " shards: on the same examples, unless each has "
                                "a data set of its own. Give the loader shard_of(processes)"));
    }
  }

  // What is wrong in one process alone must not leave the others waiting.
  void check_callbacks() {
    std::exception_ptr failure;
    try {
      each(&Callback::check);
    } catch (...) {
      failure = std::current_exception();
    }
    if (processes() != nullptr) distributed::fail_together(*processes(), "Model", failure);
    if (failure != nullptr) std::rethrow_exception(failure);
  }

  // Behind every hook that may have asked for it: one that stopped alone would keep the others
  // waiting.
  void agree_to_stop() {
    if (processes() != nullptr) state_.stop = distributed::any(*processes(), state_.stop);
  }

  // All of them now, not each when its step is there, which may be in a week.
  void check_rates() const {
    for (std::size_t i = 0; i < options_.lr.size(); ++i) {
      check_arg(optim::is_rate(options_.lr[i]), "Model", "the learning rate of step ", i + 1,
                " is ", options_.lr[i], ". Rates must not be negative, and finite in f32");
    }
  }

  // Where the training ends, by epochs or by steps. As many epochs as can be named are legal.
  std::int64_t last_step(std::int64_t epochs, std::int64_t in_epoch) const {
    const std::int64_t countable = (std::numeric_limits<std::int64_t>::max() - state_.step) /
                                   std::max<std::int64_t>(state_.steps_per_epoch, 1);
    const std::int64_t left = std::min(epochs - epochs_done_, countable);
    return std::min(options_.steps, state_.step + left * state_.steps_per_epoch - in_epoch);
  }

  void each(void (Callback::*hook)(FitState&)) {
    for (Callback* callback : options_.callbacks) (callback->*hook)(state_);
  }

  // After the last batch of an epoch whose end is still to come; a checkpoint may be of there.
  bool is_at_end() const { return loader_.position().step == state_.steps_per_epoch; }

  // After an epoch's last batch the loader wants to be asked once more; then it stands at the next.
  void go_to_next_epoch() {
    data::Batch none;
    if (is_at_end()) loader_.next(none);
  }

  void run_epoch() {
    ++state_.epoch;
    each(&Callback::on_epoch_begin);
    agree_to_stop();
    // What is in it set to eval(), such as frozen batch norms, stays so.
    if (!model_.net().is_training()) model_.net().train();
    for (data::Batch batch; state_.step < state_.total_steps && !state_.stop && !is_at_end();) {
      if (!next_batch(batch)) break;
      run_step(batch);
    }
    state_.epoch_is_complete = is_at_end();
    if (state_.stop && !state_.epoch_is_complete) return;
    // Before the epoch is left: a checkpoint of here goes on with the evaluation.
    if (options_.validation != nullptr) evaluate();
    go_to_next_epoch();
    epochs_done_ += state_.epoch_is_complete ? 1 : 0;
    each(&Callback::on_epoch_end);
    each(&Callback::after_epoch);
    agree_to_stop();
    state_.step_in_epoch = 0;
  }

  void evaluate() {
    try {
      state_.metrics = model_.eval(*options_.validation);
    } catch (...) {
      save_in_spite();
      if (processes() != nullptr) distributed::meet_in_failure(*processes());
      throw;
    }
  }

  // What is wrong already is not to be hidden by what goes wrong then.
  void save_in_spite() {
    try {
      each(&Callback::on_evaluation_failed);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }

  bool next_batch(data::Batch& batch) {
    const auto start = std::chrono::steady_clock::now();
    const bool found = loader_.next(batch);
    const std::chrono::duration<double, std::milli> waited =
        std::chrono::steady_clock::now() - start;
    state_.wait_ms = waited.count();
    return found;
  }

  void run_step(const data::Batch& batch) {
    if (!options_.lr.empty()) {
      const auto i = std::min(static_cast<std::size_t>(state_.step), options_.lr.size() - 1);
      model_.optimizer().set_lr(options_.lr[i]);
    }
    state_.lr = model_.optimizer().lr();
    ++state_.step;
    ++state_.step_in_epoch;
    state_.batch = &batch;
    each(&Callback::on_step_begin);
    state_.lr = model_.optimizer().lr();  // a callback may have set it
    const Device device = model_.net().device();
    state_.result = model_.train_step()(batch.images.to(device), batch.labels.to(device));
    state_.skipped_steps += state_.result.skipped ? 1 : 0;
    each(&Callback::on_step_end);
    state_.batch = nullptr;
    each(&Callback::after_step);
    agree_to_stop();
  }

  io::Checkpoint capture_all() {
    io::Checkpoint checkpoint = capture({model_.train_step(), loader_}, state_.step);
    checkpoint.values[kProgress] = {{"epochs", epochs_done_}, {"skipped", state_.skipped_steps}};
    io::CheckpointValues& metrics = checkpoint.values[kMetrics];
    for (const auto& [name, value] : state_.metrics) metrics[name] = value;
    for (const Callback* callback : options_.callbacks) callback->save(checkpoint);
    return checkpoint;
  }

  // Goes on from a checkpoint. False if that is not wanted, or there is none.
  bool resume() {
    if (options_.resume.empty() || io::list_checkpoints(options_.resume).empty()) return false;
    const io::FoundCheckpoint found = io::read_latest_checkpoint(options_.resume);
    const io::Checkpoint& checkpoint = found.checkpoint;
    const auto epochs = checkpoint.value<std::int64_t>(kProgress, "epochs");
    const auto skipped = checkpoint.value<std::int64_t>(kProgress, "skipped");
    std::map<std::string, double> metrics = metrics_in(checkpoint);
    restore_all(checkpoint);
    state_.resumed_from = found.path;
    state_.step = checkpoint.step;
    state_.epoch = epochs_done_ = epochs;
    state_.skipped_steps = skipped;
    state_.metrics = std::move(metrics);
    return true;
  }

  // What this throws leaves everything as it was.
  void restore_all(const io::Checkpoint& checkpoint) {
    std::vector<io::Checkpoint> before;  // what each callback remembers, of those that have begun
    try {
      for (Callback* callback : options_.callbacks) {
        io::Checkpoint own;
        callback->save(own);
        before.push_back(std::move(own));
        callback->load(checkpoint);
      }
      restore({model_.train_step(), loader_}, checkpoint);
    } catch (...) {
      for (std::size_t i = 0; i < before.size(); ++i) take_back(*options_.callbacks[i], before[i]);
      throw;
    }
  }

  // One that refuses what it has saved must not hide what was wrong, nor keep others from theirs.
  static void take_back(Callback& callback, const io::Checkpoint& before) {
    try {
      callback.load(before);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }

  Model& model_;
  data::BatchSource& loader_;
  const FitOptions& options_;
  FitState state_;
  std::int64_t epochs_done_ = 0;  // to their end
};

}  // namespace

Model::Model(nn::Module& net, amp::LossFunction loss, optim::Optimizer& optimizer,
             const ModelOptions& options)
    : loss_(loss), step_(amp::build_train_network(net, std::move(loss), optimizer, options.amp)) {
  for (const std::string& name : options.metrics) add_metric(make_metric(name));
  if (options.graph) step_.set_execution(graph::captured(net));
}

Model::Model(amp::TrainOneStepWithLossScale step, amp::LossFunction eval_loss,
             const std::vector<std::string>& metrics)
    : loss_(std::move(eval_loss)), step_(std::move(step)) {
  check_arg(loss_ != nullptr, "Model", "the loss function of evaluation is null. Give one");
  for (const std::string& name : metrics) add_metric(make_metric(name));
}

void Model::add_metric(std::unique_ptr<Metric> metric) {
  check_arg(metric != nullptr, "Model", "the metric is null. Make one");
  const bool taken = std::ranges::any_of(
      metrics_, [&](const auto& other) { return other->name() == metric->name(); });
  check_arg(!taken, "Model", "there are two metrics called `", metric->name(), "`. Name each once");
  metrics_.push_back(std::move(metric));
}

const Metric& Model::metric(const std::string& name) const {
  const auto find = [&](const std::string& wanted) {
    return std::ranges::find(metrics_, wanted, [](const auto& metric) { return metric->name(); });
  };
  // One of the user's own may be called what is another name of ours.
  auto found = find(name);
  if (found == metrics_.end()) found = find(metric_name(name));
  check_arg(found != metrics_.end(), "Model", "has no metric `", name,
            "`. Name it in ModelOptions, or call add_metric()");
  return **found;
}

FitResult Model::fit(std::int64_t epochs, data::BatchSource& loader, const FitOptions& options) {
  check_arg(epochs >= 1 && options.steps >= 1, "Model",
            "fit() needs at least 1 epoch and 1 step: ", epochs, " and ", options.steps);
  return Loop(*this, loader, options).run(epochs);
}

std::map<std::string, double> Model::eval(data::BatchSource& loader) {
  const nn::Inference inference(net());
  for (const auto& metric : metrics_) metric->reset();
  // It may be the one that is trained on.
  struct SeekBack {
    data::BatchSource& loader;
    data::LoaderPosition place;
    ~SeekBack() { loader.seek(place); }
  } in_the_end{loader, loader.position()};
  loader.seek({});
  const Device device = net().device();
  distributed::ProcessGroup* const processes = step_.options().processes;
  // Running statistics are each process's own in training.
  if (processes != nullptr) distributed::broadcast(*processes, net().named_buffers());
  std::exception_ptr failure;
  try {
    for (data::Batch batch; loader.next(batch);) {
      const Tensor output = amp::forward(net(), batch.images.to(device), step_.options().policy);
      // As in training: a region in which this is called is for the network.
      const amp::NoAutocast outside;
      const double loss = loss_(output, batch.labels.to(device)).item();
      for (const auto& metric : metrics_) metric->update(output, batch.labels, loss);
    }
  } catch (...) {
    if (processes == nullptr) throw;
    failure = std::current_exception();
  }
  // The first saves what is trained, also where the evaluation of another one fails.
  if (processes != nullptr) distributed::fail_together(*processes, "Model", failure);
  const bool has_part = loader.order().shard.count > 1;
  for (const auto& metric : metrics_) {
    if (processes != nullptr && has_part) metric->add_up(*processes);
  }
  std::map<std::string, double> values;
  for (const auto& metric : metrics_) values[metric->name()] = metric->value();
  return values;
}

Tensor Model::predict(const Tensor& input) {
  const nn::Inference inference(net());
  return amp::forward(net(), input.to(net().device()), step_.options().policy);
}

}  // namespace mezzo::train

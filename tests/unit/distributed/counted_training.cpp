#include "tests/unit/distributed/counted_training.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/data/tensor_batches.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/select.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/train/model.h"
#include "tests/unit/distributed/processes.h"

namespace mezzo::test {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The examples of all processes and steps, as tensors and as places, example by example.
struct Data {
  Tensor inputs{};
  Tensor labels{};
  Places places{};
  std::int64_t pixels = 1;  // per example
};

class DataMaker {
 public:
  explicit DataMaker(const CountedTraining& training) : training_(training), rng_(training.seed) {}

  Data make() {
    Data data{.pixels = std::max<std::int64_t>(1, training_.height * training_.width)};
    const std::int64_t examples = training_.steps * training_.batch_size * training_.processes;
    for (std::int64_t i = 0; i < examples; ++i) {
      const bool ignored = draw() < training_.ignored;
      for (std::int64_t p = 0; p < data.pixels; ++p) {
        add_place(data.places, training_.ignores_examples ? ignored : draw() < training_.ignored);
      }
    }
    data.inputs = to_tensor(data.places.inputs, examples, training_.features);
    if (training_.loss.is_of_classes) {
      data.labels = from_values(data.places.labels, shape_of(examples, std::nullopt));
    } else {
      data.labels = to_tensor(data.places.targets, examples, training_.classes);
    }
    return data;
  }

 private:
  // The same values everywhere, which the library's distributions do not promise.
  double draw() { return static_cast<double>(rng_() >> 11) * 0x1p-53; }
  double number() { return static_cast<float>(4 * draw() - 2); }

  void add_place(Places& places, bool ignored) {
    std::vector<double>& inputs = places.inputs.emplace_back();
    for (std::int64_t k = 0; k < training_.features; ++k) inputs.push_back(number());
    if (training_.loss.is_of_classes) {
      const auto label = static_cast<std::int64_t>(draw() * static_cast<double>(training_.classes));
      places.labels.push_back(ignored ? training_.loss.ignore_index.value_or(label) : label);
      return;
    }
    std::vector<double>& targets = places.targets.emplace_back();
    for (std::int64_t j = 0; j < training_.classes; ++j) {
      const double target = number();
      targets.push_back(ignored && training_.loss.leaves_out_unknown ? kUnknown : target);
    }
  }

  Shape shape_of(std::int64_t examples, std::optional<std::int64_t> channels) const {
    Shape shape{examples};
    if (channels.has_value()) shape.push_back(*channels);
    if (training_.height > 0) {
      shape.push_back(training_.height);
      shape.push_back(training_.width);
    }
    return shape;
  }

  // Places are the last axes of images.
  Tensor to_tensor(const std::vector<std::vector<double>>& rows, std::int64_t examples,
                   std::int64_t channels) const {
    std::vector<float> values;
    const std::int64_t pixels = static_cast<std::int64_t>(rows.size()) / examples;
    for (std::int64_t i = 0; i < examples; ++i) {
      for (std::int64_t k = 0; k < channels; ++k) {
        for (std::int64_t p = 0; p < pixels; ++p) {
          values.push_back(static_cast<float>(
              rows[static_cast<std::size_t>(i * pixels + p)][static_cast<std::size_t>(k)]));
        }
      }
    }
    return from_values(values, shape_of(examples, channels));
  }

  const CountedTraining& training_;
  std::mt19937_64 rng_;
};

Places part_of(const Places& all, std::int64_t begin, std::int64_t end) {
  const auto cut = [&](const auto& rows) {
    using Rows = std::decay_t<decltype(rows)>;
    return rows.empty() ? Rows() : Rows(rows.begin() + begin, rows.begin() + end);
  };
  return {cut(all.inputs), cut(all.labels), cut(all.targets)};
}

// The loss
// -----------------------------------------------------------------------------------------
CrossEntropyOptions options_of(const LossRule& rule, Reduction reduction) {
  CrossEntropyOptions options{
      .label_smoothing = rule.smoothing, .reduction = reduction, .ignore_index = rule.ignore_index};
  if (!rule.class_weights.empty()) {
    const std::vector<float> weights(rule.class_weights.begin(), rule.class_weights.end());
    options.class_weights = from_values(weights, {static_cast<std::int64_t>(weights.size())});
  }
  return options;
}

Tensor is_known(const Tensor& targets) { return eq(targets, targets); }

Tensor sum_of_squares(const Tensor& output, const Tensor& targets) {
  const Tensor known = is_known(targets);
  const Tensor apart = where(known, output - targets, zeros({}));
  return sum(apart * apart);
}

amp::LossFunction loss_of_squares(const LossRule& rule, LossForm form) {
  switch (form) {
    case LossForm::kObject: return nn::MseLoss(rule.reduction);
    case LossForm::kSum: return amp::SumLoss(sum_of_squares);
    case LossForm::kCounted:
      return amp::CountedLoss(sum_of_squares, [](const Tensor& targets) {
        return sum(is_known(targets).astype(DType::kF32));
      });
    case LossForm::kPlain: break;
  }
  return [](const Tensor& output, const Tensor& targets) { return mse_loss(output, targets); };
}

amp::LossFunction loss_of_classes(const LossRule& rule, LossForm form) {
  const auto cross_entropy_with = [](const CrossEntropyOptions& options) {
    return [options](const Tensor& output, const Tensor& labels) {
      return cross_entropy(output, labels, options);
    };
  };
  const CrossEntropyOptions sums = options_of(rule, Reduction::kSum);
  switch (form) {
    case LossForm::kObject: return nn::CrossEntropyLoss(options_of(rule, rule.reduction));
    case LossForm::kSum: return amp::SumLoss(cross_entropy_with(sums));
    case LossForm::kCounted:
      return amp::CountedLoss(cross_entropy_with(sums), [sums](const Tensor& labels) {
        return cross_entropy_count(labels, sums);
      });
    case LossForm::kPlain: break;
  }
  return cross_entropy_with(options_of(rule, Reduction::kMean));
}

amp::LossFunction loss_of(const CountedTraining& training) {
  return training.loss.is_of_classes ? loss_of_classes(training.loss, training.form)
                                     : loss_of_squares(training.loss, training.form);
}

// The training
// -------------------------------------------------------------------------------------
using Numbers = std::vector<double>;

struct Step {
  Numbers before{};
  Numbers after{};
  double loss = 0;
  bool skipped = false;
};

struct Trained {
  std::vector<Step> steps{};
  std::optional<double> eval_loss{};  // nothing if it was refused
};

std::unique_ptr<nn::Module> make_net(const CountedTraining& training) {
  manual_seed(training.seed);
  if (training.height > 0) {
    return std::make_unique<nn::Conv2d>(training.features, training.classes, 1);
  }
  return std::make_unique<nn::Linear>(training.features, training.classes);
}

Numbers numbers_of(const nn::Module& net) {
  Numbers all;
  for (const Tensor& param : net.parameters()) {
    for (const double number : param.to_vector<double>()) all.push_back(number);
  }
  return all;
}

amp::TrainNetworkOptions amp_of(const CountedTraining& training,
                                distributed::ProcessGroup* processes) {
  amp::TrainNetworkOptions amp{
      .level = "O0", .step = {.micro_batches = training.micro_batches, .processes = processes}};
  if (training.dtype != DType::kF32) {
    amp.level = "O2";
    amp.dtype = training.dtype;
    amp.loss_scale_manager = training.loss_scale > 1
                                 ? amp::FixedLossScaleManager(training.loss_scale)
                                 : amp::LossScaleManager();
  }
  return amp;
}

Trained train(const CountedTraining& training, const Data& data,
              distributed::ProcessGroup& processes) {
  const auto net = make_net(training);
  optim::Sgd sgd(net->parameters(), {.lr = 1});  // parameters change by their gradients
  std::vector<Tensor> begin;
  for (const Tensor& param : net->parameters()) begin.push_back(copy_of(param));
  train::Model model(
      *net, loss_of(training), sgd,
      {.metrics = {"loss"}, .amp = amp_of(training, &processes), .graph = training.graph});
  Trained trained;
  train::LambdaCallback watch(
      {.on_step_begin = [&](train::FitState&) { trained.steps.push_back({numbers_of(*net)}); },
       .on_step_end =
           [&](train::FitState& state) {
             Step& step = trained.steps.back();
             step.after = numbers_of(*net);
             step.loss = state.result.loss;
             step.skipped = state.result.skipped;
             // Otherwise steep losses would end in infinities.
             for (std::size_t i = 0; i < begin.size(); ++i) {
               copy_elements(begin[i], net->parameters()[i]);
             }
           }});
  const data::Shard shard = data::shard_of(processes);
  data::TensorBatches batches(data.inputs, data.labels,
                              {.batch_size = training.batch_size,
                               .shuffle = false,
                               .drop_remainder = true,
                               .shard = shard});
  model.fit(1, batches, {.callbacks = {&watch}});
  data::TensorBatches all(
      data.inputs, data.labels,
      {.batch_size = training.eval_batch_size, .shuffle = false, .shard = shard});
  try {
    trained.eval_loss = model.eval(all).at("loss");
  } catch (const ArgumentError&) {
    trained.eval_loss = std::nullopt;
  }
  return trained;
}

// The comparison
// -----------------------------------------------------------------------------------
Rounding rounding_of(const CountedTraining& training) {
  Rounding rounding{.parts = training.micro_batches * training.processes};
  if (training.dtype == DType::kBf16) rounding.unit = 0x1p-9;
  if (training.dtype == DType::kF16) {
    rounding.unit = 0x1p-11;
    rounding.smallest = 0x1p-24 / training.loss_scale;
  }
  return rounding;
}

// The parameters of Linear or of a 1x1 convolution.
LinearParams params_of(const CountedTraining& training, const Numbers& numbers) {
  const auto classes = static_cast<std::size_t>(training.classes);
  const auto features = static_cast<std::size_t>(training.features);
  LinearParams params;
  auto at = numbers.begin();
  for (std::size_t j = 0; j < classes; ++j, at += training.features) {
    params.weight.emplace_back(at, at + training.features);
  }
  params.bias.assign(at, numbers.end());
  EXPECT_EQ(numbers.size(), classes * (features + 1));
  return params;
}

void expect_near(double found, const Near& expected, const char* what, std::size_t i) {
  EXPECT_LE(std::abs(found - expected.value), expected.error)
      << what << " " << i << " is " << found << ", not " << expected.value;
}

void expect_step(const CountedTraining& training, const Step& step, const Places& places) {
  const LinearParams params = params_of(training, step.before);
  const WholeBatch whole = whole_batch(places, params, training.loss, rounding_of(training));
  if (whole.count == 0) {
    // The loss is infinite where smoothing gives classes of weight 0 a share.
    EXPECT_TRUE(step.skipped && !std::isfinite(step.loss)) << step.loss;
    EXPECT_EQ(step.after, step.before);
    return;
  }
  ASSERT_FALSE(step.skipped) << "the loss is " << step.loss;
  expect_near(step.loss, whole.loss, "loss", 0);
  for (std::size_t i = 0; i < whole.grads.size(); ++i) {
    Near grad = whole.grads[i];
    grad.error += 0x1p-23 * (std::abs(step.before[i]) + std::abs(step.after[i]));
    expect_near(step.before[i] - step.after[i], grad, "gradient", i);
  }
}

void expect_evaluation(const CountedTraining& training, const Trained& trained,
                       const Places& places) {
  const LinearParams params = params_of(training, trained.steps.back().before);
  const WholeBatch whole = whole_batch(places, params, training.loss, rounding_of(training));
  EXPECT_EQ(trained.eval_loss.has_value(), whole.count != 0);
  if (trained.eval_loss.has_value()) {
    expect_near(*trained.eval_loss, whole.loss, "loss of the evaluation", 0);
  }
}

void expect_same(const Trained& trained, const Trained& first) {
  ASSERT_EQ(trained.steps.size(), first.steps.size());
  for (std::size_t i = 0; i < first.steps.size(); ++i) {
    EXPECT_EQ(trained.steps[i].before, first.steps[i].before);
    EXPECT_EQ(trained.steps[i].after, first.steps[i].after);
    EXPECT_EQ(trained.steps[i].skipped, first.steps[i].skipped);
  }
  EXPECT_EQ(trained.eval_loss, first.eval_loss);
}

}  // namespace

std::string describe(const CountedTraining& t) {
  constexpr const char* kForms[] = {"object", "counted", "sum", "plain"};
  std::string text =
      concat("seed ", t.seed, ": ", t.loss.is_of_classes ? "cross entropy" : "squares", " as ",
             kForms[static_cast<std::size_t>(t.form)],
             t.loss.reduction == Reduction::kSum ? ", a sum" : "", ", ", t.ignored, " ignored");
  if (t.loss.ignore_index.has_value()) text += concat(" as ", *t.loss.ignore_index);
  if (!t.loss.class_weights.empty()) text += ", class weights";
  if (t.loss.smoothing > 0) text += concat(", smoothing ", t.loss.smoothing);
  return text + concat(", ", t.dtype, t.graph ? ", graph" : "", ", ", t.processes, " processes of ",
                       t.micro_batches, " micro-batches of ", t.batch_size, " examples, ",
                       t.features, " features, ", t.classes, " classes, ", t.height, "x", t.width,
                       " pixels");
}

void expect_whole_batches(const CountedTraining& training) {
  SCOPED_TRACE(describe(training));
  const Data data = DataMaker(training).make();
  const auto trained = results_of<Trained>(
      training.processes,
      [&](distributed::ProcessGroup& processes) { return train(training, data, processes); });
  ASSERT_EQ(trained[0].steps.size(), static_cast<std::size_t>(training.steps));
  const std::int64_t places = training.batch_size * training.processes * data.pixels;
  for (std::int64_t i = 0; i < training.steps; ++i) {
    expect_step(training, trained[0].steps[static_cast<std::size_t>(i)],
                part_of(data.places, i * places, (i + 1) * places));
  }
  expect_evaluation(training, trained[0], data.places);
  for (const Trained& other : trained) expect_same(other, trained[0]);
}

}  // namespace mezzo::test

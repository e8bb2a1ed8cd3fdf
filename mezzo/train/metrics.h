// Metrics: what evaluation measures, batch by batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mezzo/amp/loss_function.h"
#include "mezzo/core/tensor.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::train {

// Gathers batches into one number. The same object serves many evaluations, each begun by reset().
class Metric {
 public:
  Metric() = default;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;
  virtual ~Metric() = default;

  // What reports call it.
  virtual std::string name() const = 0;
  virtual void reset() = 0;
  // One batch: the network's f32 output, the labels, and the loss, whose value() is that of the
  // batch by itself. The output is undefined for a metric that does not read it.
  virtual void update(const Tensor& output, const Tensor& labels, const amp::BatchLoss& loss) = 0;
  // Where processes evaluate parts of one set: adds what the others have gathered, so that value()
  // is of all. Throws UnsupportedError if the metric has not said how.
  virtual void add_up(distributed::ProcessGroup& processes);
  // False for a metric of losses alone: 16-bit outputs then need not be widened for it.
  virtual bool reads_output() const { return true; }
  // Over everything since reset(). Throws ArgumentError if that is nothing.
  virtual double value() const = 0;
  // False as long as value() would throw since nothing of the batches so far has counted.
  virtual bool has_counted() const { return true; }
  // Another one of the same kind, which a batch is tried with before a training. Null, unless a
  // metric of the user's own says otherwise, which is then reset(), tried itself and reset() again.
  virtual std::unique_ptr<Metric> fresh() const { return nullptr; }
  // Whether lower is better, as of losses and errors.
  virtual bool prefers_low() const { return false; }
};

// The part of the examples whose label is among the k largest logits; `accuracy` for k = 1, else
// `top5` and so on. Logits [n, c], labels i64 [n]; or of places, such as pixels, [n, c, ...] and
// [n, ...], each of which counts as an example. Of equal logits those of lower class numbers
// count as larger. A NaN is not larger than anything, and the label of a NaN is never among them.
class TopK final : public Metric {
 public:
  // Examples with the label `ignore_index` do not count. Throws ArgumentError unless k is at
  // least 1.
  explicit TopK(std::int64_t k = 1, std::optional<std::int64_t> ignore_index = std::nullopt);
  std::string name() const override;
  void reset() override;
  void update(const Tensor& output, const Tensor& labels, const amp::BatchLoss& loss) override;
  void add_up(distributed::ProcessGroup& processes) override;
  double value() const override;
  bool has_counted() const override { return examples_ != 0; }
  std::unique_ptr<Metric> fresh() const override {
    return std::make_unique<TopK>(k_, ignore_index_);
  }

 private:
  std::int64_t k_;
  std::optional<std::int64_t> ignore_index_;
  std::int64_t right_ = 0;
  std::int64_t examples_ = 0;
};

// The loss of all batches as one: the mean over all examples, or over what the loss counts; the sum
// of one that is a sum. A batch of which nothing counts, whose own loss is NaN, adds 0 to both
// sums.
class MeanLoss final : public Metric {
 public:
  std::string name() const override { return "loss"; }
  void reset() override;
  void update(const Tensor& output, const Tensor& labels, const amp::BatchLoss& loss) override;
  void add_up(distributed::ProcessGroup& processes) override;
  double value() const override;
  bool has_counted() const override { return count_ != 0; }
  std::unique_ptr<Metric> fresh() const override { return std::make_unique<MeanLoss>(); }
  bool reads_output() const override { return false; }
  bool prefers_low() const override { return true; }

 private:
  double sum_ = 0;
  double count_ = 0;
  bool adds_up_ = false;
};

// `accuracy` (or `acc`), `loss`, `top5` and other numbers (or `top_5_accuracy`, `acc5`, `acc@5`),
// each also with `val_` before it; `ignore_index` is for those of TopK. Throws ArgumentError for
// other names.
std::unique_ptr<Metric> make_metric(std::string_view name,
                                    std::optional<std::int64_t> ignore_index = std::nullopt);
// What the metric that make_metric() gives for a name is called itself, `accuracy` for `acc`; names
// that it does not know stay as they are.
std::string metric_name(std::string_view name);

}  // namespace mezzo::train

// Metrics: measurements that an evaluation makes, batch by batch.
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

// Accumulates batches into one value. The same object serves many evaluations; reset() begins each.
class Metric {
 public:
  Metric() = default;
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;
  virtual ~Metric() = default;

  // The metric's name in reports.
  virtual std::string name() const = 0;
  virtual void reset() = 0;
  // Adds one batch: the network's f32 output, the labels, and the loss, whose value() is that of
  // the batch alone. The output is undefined for a metric that does not read it. Output and labels
  // of a loss whose classes are the last axis, as in nn::NextTokenLoss, come as [n, classes] and
  // [n].
  virtual void update(const Tensor& output, const Tensor& labels, const amp::BatchLoss& loss) = 0;
  // If processes evaluate parts of one set: adds what the others have accumulated, so that value()
  // covers all. Throws UnsupportedError if the metric does not implement it.
  virtual void add_up(distributed::ProcessGroup& processes);
  // False for a metric of losses alone: 16-bit outputs then need not be converted to f32 for it.
  virtual bool reads_output() const { return true; }
  // The value over everything since reset(). Throws ArgumentError if that is nothing.
  virtual double value() const = 0;
  // False as long as value() would throw because nothing in the batches so far has counted.
  virtual bool has_counted() const { return true; }
  // A new metric of the same kind, with which a batch is tried before a training. May be null for a
  // user's metric, which is then reset(), tried itself and reset() again.
  virtual std::unique_ptr<Metric> fresh() const { return nullptr; }
  // Whether lower values are better, as for losses and errors.
  virtual bool prefers_low() const { return false; }
};

// The share of examples whose label is among the k largest logits; named `accuracy` for k = 1,
// otherwise `top5` and so on. Logits [n, c], labels i64 [n]; for positions such as pixels, [n, c,
// ...] and [n, ...], where each position counts as an example. Among equal logits, lower class
// numbers rank higher. A NaN is not larger than anything, and a label whose own logit is NaN is
// never among the k largest.
class TopK final : public Metric {
 public:
  // Examples with the label `ignore_index` do not count. Throws ArgumentError unless k is at least
  // 1.
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

// The loss of all batches as one: the mean over all examples or over what the loss counts, or the
// sum if the loss is a sum. A batch in which nothing counts, whose own loss is NaN, adds 0 to both
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
// each also with the prefix `val_`. `ignore_index` is passed to TopK. Throws ArgumentError for
// other names.
std::unique_ptr<Metric> make_metric(std::string_view name,
                                    std::optional<std::int64_t> ignore_index = std::nullopt);
// The proper name of the metric that make_metric() makes for a name, `accuracy` for `acc`; unknown
// names are returned unchanged.
std::string metric_name(std::string_view name);

}  // namespace mezzo::train

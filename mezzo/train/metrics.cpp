#include "mezzo/train/metrics.h"

#include <charconv>

#include "mezzo/distributed/average.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/losses.h"

namespace mezzo::train {
namespace {

// True if fewer than k logits of a row are larger than that of the label.
bool is_among_top(const float* row, std::int64_t classes, std::int64_t label, std::int64_t k) {
  const float own = row[label];
  if (own != own) return false;
  std::int64_t larger = 0;
  for (std::int64_t j = 0; j < classes; ++j) {
    larger += row[j] > own || (row[j] == own && j < label) ? 1 : 0;
  }
  return larger < k;
}

Shape without_classes(Shape shape) {
  shape.erase(1);
  return shape;
}

void check_counted(const std::string& name, double count) {
  check_arg(count != 0, "metrics", "nothing has been counted for ", name,
            ". Evaluate examples whose labels are not all ignored or of classes with weight 0");
}

// Exact, since a set has fewer than 2^53 examples.
std::int64_t sum_of(distributed::ProcessGroup& processes, std::int64_t count) {
  return static_cast<std::int64_t>(distributed::sum(processes, static_cast<double>(count)));
}

}  // namespace

void Metric::add_up(distributed::ProcessGroup&) {
  fail<UnsupportedError>("metrics", "`", name(),
                         "` does not say how to combine the results of several processes. Override "
                         "add_up(), or let every process evaluate all examples");
}

TopK::TopK(std::int64_t k, std::optional<std::int64_t> ignore_index)
    : k_(k), ignore_index_(ignore_index) {
  check_arg(k >= 1, "metrics", "top-k needs a k of at least 1, not ", k);
}

std::string TopK::name() const { return k_ == 1 ? "accuracy" : concat("top", k_); }

void TopK::reset() { right_ = examples_ = 0; }

void TopK::update(const Tensor& output, const Tensor& labels, const amp::BatchLoss&) {
  check_arg(output.rank() >= 2 && labels.shape() == without_classes(output.shape()), "metrics",
            "logits are [n, c] and labels [n], or [n, c, ...] and [n, ...]: ", output, " and ",
            labels,
            ". Give each row of logits one label, or choose other metrics, as in "
            "ModelOptions{.metrics = {\"loss\"}}");
  check_arg(
      !is_floating(labels.dtype()), "metrics",
      "labels are class numbers, which are integers, but these are ", labels,
      ". Give them as i64, or choose other metrics, as in ModelOptions{.metrics = {\"loss\"}}");
  const Tensor logits = contiguous(class_rows(output.detach().to(kCpuDevice).astype(DType::kF32)));
  const std::int64_t classes = output.size(1);
  const auto* row = logits.data<float>();
  for (const std::int64_t label : labels.to_vector<std::int64_t>()) {
    if (label != ignore_index_) {
      check_arg(label >= 0 && label < classes, "metrics", "the label ", label, " is none of the ",
                classes,
                " classes. Classes count from 0; to ignore a label, set the ignore_index of "
                "nn::CrossEntropyLoss, or of a TopK for add_metric()");
      right_ += is_among_top(row, classes, label, k_) ? 1 : 0;
      ++examples_;
    }
    row += classes;
  }
}

void TopK::add_up(distributed::ProcessGroup& processes) {
  right_ = sum_of(processes, right_);
  examples_ = sum_of(processes, examples_);
}

double TopK::value() const {
  const auto examples = static_cast<double>(examples_);
  check_counted(name(), examples);
  return static_cast<double>(right_) / examples;
}

void MeanLoss::reset() {
  sum_ = count_ = 0;
  adds_up_ = false;
}

void MeanLoss::update(const Tensor&, const Tensor&, const amp::BatchLoss& loss) {
  sum_ += loss.sum;
  count_ += loss.count;
  adds_up_ = loss.adds_up;
}

// A process may have had no batch, and not know what the loss is.
void MeanLoss::add_up(distributed::ProcessGroup& processes) {
  sum_ = distributed::sum(processes, sum_);
  count_ = distributed::sum(processes, count_);
  adds_up_ = distributed::any(processes, adds_up_);
}

double MeanLoss::value() const {
  check_counted(name(), count_);
  return amp::BatchLoss{.sum = sum_, .count = count_, .adds_up = adds_up_}.value();
}

namespace {

// The k in a name that is a number between `begin` and `end`.
std::optional<std::int64_t> number_between(std::string_view name, std::string_view begin,
                                           std::string_view end) {
  const bool fits =
      name.size() > begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end);
  if (!fits) return std::nullopt;
  name = name.substr(begin.size(), name.size() - begin.size() - end.size());
  std::int64_t k = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), k);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == name.data() + name.size();
  return is_number && k >= 1 ? std::optional(k) : std::nullopt;
}

// Parses all names of top-k accuracies: MindSpore's `acc` and `top_5_accuracy`, torchvision's
// `acc1` and `acc@5`, timm's `top5`.
std::optional<std::int64_t> top_k_of(std::string_view name) {
  if (name == "accuracy" || name == "acc") return 1;
  constexpr std::string_view kForms[][2] = {
      {"top", ""}, {"top_", "_accuracy"}, {"acc", ""}, {"acc@", ""}};
  for (const auto& [begin, end] : kForms) {
    if (const auto k = number_between(name, begin, end)) return k;
  }
  return std::nullopt;
}

// Null if there is no metric of that name.
std::unique_ptr<Metric> find_metric(std::string_view name,
                                    std::optional<std::int64_t> ignore_index = std::nullopt) {
  // Keras and Lightning mark metrics of the validation like this; here all metrics are.
  constexpr std::string_view kValidation = "val_";
  if (name.starts_with(kValidation)) name.remove_prefix(kValidation.size());
  if (name == "loss") return std::make_unique<MeanLoss>();
  const auto k = top_k_of(name);
  return k.has_value() ? std::make_unique<TopK>(*k, ignore_index) : nullptr;
}

}  // namespace

std::unique_ptr<Metric> make_metric(std::string_view name,
                                    std::optional<std::int64_t> ignore_index) {
  auto metric = find_metric(name, ignore_index);
  check_arg(metric != nullptr, "metrics", "there is no metric `", name,
            "`. Known metrics are accuracy (or acc), loss and top5 (or another number; also "
            "top_5_accuracy and acc5)");
  return metric;
}

std::string metric_name(std::string_view name) {
  const auto metric = find_metric(name);
  return metric != nullptr ? metric->name() : std::string(name);
}

}  // namespace mezzo::train

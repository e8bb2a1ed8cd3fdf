#include "mezzo/cli/tune_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "mezzo/cli/table.h"

namespace mezzo::cli {
namespace {

using tune::MeasuredChoice;
using tune::MeasuredOperation;
using tune::ProvedSetting;
using tune::TuneResult;

constexpr std::size_t kTuneWidth = 100;

// JSON has no infinities and no NaN.
Json tune_number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string tune_remark_of(const TuneResult& result, std::size_t setting) {
  const ProvedSetting& proved = result.settings[setting];
  if (setting == result.chosen) return "chosen";
  if (!proved.error.is_finite()) return "gradients are not finite";
  if (!proved.is_within) return "over the budget";
  return proved.is_best ? "no other is as fast and as exact" : "";
}

std::string ms_in(const MeasuredOperation& operation, DType dtype) {
  const auto found = std::ranges::find_if(operation.choices, [&](const MeasuredChoice& choice) {
    return choice.choice.dtype == dtype && !choice.choice.exact;
  });
  return found == operation.choices.end() ? "" : fmt::format("{:.3f}", found->ms);
}

std::vector<DType> dtypes_in(const TuneResult& result) {
  std::vector<DType> dtypes{DType::kF32};
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kE4m3}) {
    const bool is_candidate =
        std::ranges::any_of(result.operations, [&](const MeasuredOperation& operation) {
          return std::ranges::any_of(operation.choices, [&](const MeasuredChoice& choice) {
            return choice.choice.dtype == dtype;
          });
        });
    if (is_candidate) dtypes.push_back(dtype);
  }
  return dtypes;
}

Json tune_event_of(const MeasuredOperation& operation) {
  Json choices = Json::array();
  for (const MeasuredChoice& choice : operation.choices) {
    choices.push_back({{"dtype", name_of(choice.choice.dtype)},
                       {"direct_sums", choice.choice.exact},
                       {"ms", tune_number(choice.ms)},
                       {"cast_ms", tune_number(choice.cast_ms)},
                       {"bytes", tune_number(choice.bytes)},
                       {"error", tune_number(choice.error.total)},
                       {"loss_error", tune_number(choice.error.loss)},
                       {"cosine", tune_number(choice.error.cosine)},
                       {"lost", tune_number(choice.error.lost)},
                       {"not_finite", tune_number(choice.error.not_finite)},
                       {"scale", tune_number(choice.error.scale)},
                       {"worst", choice.error.worst.name}});
  }
  return {{"event", "operation"},
          {"module", operation.operation.module},
          {"op", operation.operation.op->name},
          {"calls", operation.operation.calls},
          {"dtype", name_of(operation.choice().choice.dtype)},
          {"direct_sums", operation.choice().choice.exact},
          {"reason", operation.reason},
          {"choices", choices}};
}

Json tune_event_of(const ProvedSetting& setting, bool is_chosen) {
  Json losses = Json::array();
  for (const double loss : setting.losses) losses.push_back(tune_number(loss));
  return {{"event", "setting"},
          {"name", setting.name},
          {"chosen", is_chosen},
          {"step_ms", tune_number(setting.ms)},
          {"predicted_ms", tune_number(setting.predicted_ms)},
          {"peak_bytes", setting.peak_bytes},
          {"error", tune_number(setting.error.total)},
          {"predicted_error", tune_number(setting.predicted_error)},
          {"loss_error", tune_number(setting.error.loss)},
          {"cosine", tune_number(setting.error.cosine)},
          {"within_budget", setting.is_within},
          {"pareto", setting.is_best},
          {"f32", setting.plan.count(DType::kF32)},
          {"bf16", setting.plan.count(DType::kBf16)},
          {"f16", setting.plan.count(DType::kF16)},
          {"e4m3", setting.plan.count(DType::kE4m3)},
          {"losses", losses}};
}

}  // namespace

std::string settings_table(const TuneResult& result) {
  std::vector<std::vector<std::string>> rows{
      {"setting", "step ms", "memory", "error", "predicted", "loss", "operations below f32", ""}};
  for (std::size_t i = 0; i < result.settings.size(); ++i) {
    const ProvedSetting& setting = result.settings[i];
    const auto all = static_cast<std::int64_t>(setting.plan.rows.size());
    rows.push_back({setting.name, fmt::format("{:.2f}", setting.ms),
                    format_bytes(setting.peak_bytes), tune::error_text(setting.error.total),
                    tune::error_text(setting.predicted_error),
                    setting.losses.empty() ? "" : fmt::format("{:.4f}", setting.losses.back()),
                    fmt::format("{} of {}", all - setting.plan.count(DType::kF32), all),
                    tune_remark_of(result, i)});
  }
  return format_table(rows, kTuneWidth, {7});
}

std::string operations_table(const TuneResult& result, std::size_t top) {
  const std::vector<DType> dtypes = dtypes_in(result);
  std::vector<std::string> header{"operation", "dtype"};
  for (const DType dtype : dtypes) header.push_back(fmt::format("{} ms", name_of(dtype)));
  header.emplace_back("reason");
  std::vector<std::vector<std::string>> rows{header};
  std::vector<std::size_t> order(result.operations.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return result.operations[a].choices.front().ms > result.operations[b].choices.front().ms;
  });
  order.resize(std::min(order.size(), top));
  for (const std::size_t i : order) {
    const MeasuredOperation& operation = result.operations[i];
    std::vector<std::string> row{operation.operation.text(), operation.choice().choice.text()};
    for (const DType dtype : dtypes) row.push_back(ms_in(operation, dtype));
    row.push_back(operation.reason);
    rows.push_back(std::move(row));
  }
  return format_table(rows, kTuneWidth, {0, rows.front().size() - 1});
}

std::string tune_summary(const TuneResult& result) {
  const ProvedSetting& chosen = result.settings[result.chosen];
  std::string counts;
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kE4m3}) {
    const std::int64_t count = chosen.plan.count(dtype);
    if (count > 0)
      counts += fmt::format("{}{} in {}", counts.empty() ? "" : ", ", count, name_of(dtype));
  }
  std::string text = fmt::format(
      "Of {} operations {}. A step takes {:.2f} ms, and its gradients have an error of {}; the "
      "budget is {} ({}). ",
      chosen.plan.rows.size(), counts, chosen.ms, tune::error_text(chosen.error.total),
      tune::error_text(result.error_budget), result.budget_from);
  text += fmt::format(
      "Errors are those of {} batches of {} examples against {}; times are of this machine. ",
      result.error_batches, result.error_examples, result.exact);
  if (!result.noise.empty()) {
    text += fmt::format(
        "{} of {} gradients are rounding noise in f32 already and do not count, such as {}. ",
        result.noise.size(), result.parameters, result.noise.front());
  }
  return text + fmt::format("Tuning took {:.0f} s.", result.seconds);
}

void log_tune(const TuneResult& result, JsonLines& log) {
  for (const MeasuredOperation& operation : result.operations) log.write(tune_event_of(operation));
  for (std::size_t i = 0; i < result.settings.size(); ++i) {
    log.write(tune_event_of(result.settings[i], i == result.chosen));
  }
  const ProvedSetting& chosen = result.settings[result.chosen];
  log.write({{"event", "result"},
             {"chosen", chosen.name},
             {"step_ms", tune_number(chosen.ms)},
             {"error", tune_number(chosen.error.total)},
             {"error_budget", tune_number(result.error_budget)},
             {"budget_from", result.budget_from},
             {"peak_bytes", chosen.peak_bytes},
             {"exact", result.exact},
             {"noise", result.noise},
             {"seconds", result.seconds}});
}

}  // namespace mezzo::cli

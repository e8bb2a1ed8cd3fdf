#include "mezzo/cli/histogram_events.h"

#include <optional>

#include "mezzo/core/error.h"

namespace mezzo::cli {
namespace {

Json or_null(const std::optional<int>& value) { return value.has_value() ? Json(*value) : Json(); }

// The shares that the format would lose, without a scale.
Json effect_fields(const ExponentCounts& counts, NumberFormat format) {
  const numbers::RangeEffect effect = numbers::effect_of(counts, format);
  return {{"infinite", effect.to_infinity},
          {"zero", effect.to_zero},
          {"subnormal", effect.to_subnormal},
          {"lost_weight", effect.lost_weight},
          {"fits", effect.fits()}};
}

// `own`: what the histogram is of.
void write(JsonLines& json, const Json& own, const amp::ExponentHistogram& histogram) {
  const ExponentCounts& counts = histogram.counts;
  Json event{{"event", "histogram"}};
  event.update(own);
  event.update({{"passes", histogram.passes},
                {"count", counts.total()},
                {"zeros", counts.zeros()},
                {"infinities", counts.infinities()},
                {"nans", counts.nans()},
                {"smallest_exponent", or_null(counts.smallest())},
                {"largest_exponent", or_null(counts.largest())}});
  for (const NumberFormatInfo& info : kNumberFormats) {
    event[info.name] = effect_fields(counts, info.format);
  }
  json.write(event);
}

}  // namespace

void write_histograms(JsonLines& json, const numbers::ActivationStatistics& statistics) {
  for (const numbers::CallHistogram& call : statistics.total()) {
    write(json,
          {{"of", "activation"},
           {"path", call.id.path},
           {"op", call.id.op},
           {"number", call.id.number},
           {"dtype", name_of(call.dtype)}},
          call.exponents);
  }
  for (const amp::ExponentHistogram& weight : statistics.total_weights()) {
    write(json, {{"of", "weight"}, {"name", weight.name}}, weight);
  }
}

void write_histograms(JsonLines& json, const amp::GradientStatistics& statistics) {
  for (const amp::ExponentHistogram& gradient : statistics.total()) {
    write(json, {{"of", "gradient"}, {"name", gradient.name}}, gradient);
  }
  for (const amp::ExponentHistogram& gradient : statistics.total_activations()) {
    write(json, {{"of", "activation_gradient"}, {"path", gradient.name}}, gradient);
  }
}

io::Histogram exponent_buckets(const ExponentCounts& counts) {
  const std::optional<int> smallest = counts.smallest();
  const std::optional<int> largest = counts.largest();
  if (!smallest.has_value() || !largest.has_value()) return {};
  io::Histogram histogram{.min = static_cast<double>(*smallest),
                          .max = static_cast<double>(*largest + 1),
                          .num = static_cast<double>(counts.finite_nonzero())};
  // The first bucket reaches down without end, so an empty one comes before.
  histogram.limits.push_back(*smallest);
  histogram.counts.push_back(0);
  for (int exponent = *smallest; exponent <= *largest; ++exponent) {
    const auto count = static_cast<double>(counts.at(exponent));
    const double middle = exponent + 0.5;
    histogram.limits.push_back(exponent + 1);
    histogram.counts.push_back(count);
    histogram.sum += count * middle;
    histogram.sum_squares += count * middle * middle;
  }
  return histogram;
}

std::string tag_of(const CallId& id) {
  return concat("activations/", id.path, id.path.empty() ? "" : "/", id.name_in_module());
}

}  // namespace mezzo::cli

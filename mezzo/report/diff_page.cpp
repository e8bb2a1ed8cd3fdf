#include "mezzo/report/diff_page.h"

#include <algorithm>
#include <span>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/report/diff_chart.h"
#include "mezzo/report/document.h"
#include "mezzo/report/html.h"
#include "mezzo/report/section.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

using numbers::ComparedResult;
using numbers::ComparedTensor;
using numbers::Comparison;

std::string percent_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "" : format_part(static_cast<double>(part) / static_cast<double>(whole));
}

std::string dtypes_text(DType a, DType b) {
  return a == b ? std::string(name_of(a)) : concat(name_of(a), ", ", name_of(b));
}

std::string facts_of(const char* name, const numbers::RecordedStep& step) {
  std::string text =
      concat(name, ": ", step.title, ", step ", step.step, ", loss ", format_number(step.loss, 6));
  if (step.scale != 1) text += concat(", loss scale ", format_number(step.scale));
  if (step.is_skipped) text += ", skipped";
  return element("p", concat(text, "; ", step.machine, ", ", step.threads, " threads"));
}

std::string verdict_of(const Comparison& found) {
  std::string html = "<div class=\"verdict\">\n";
  for (const std::string& line : found.lines()) html += element("p", line);
  return html + "</div>\n";
}

std::string key(const char* css_class, const char* text) {
  return concat("<span class=\"key\"><i class=\"", css_class, "\"></i>", escape(text), "</span>\n");
}

std::string legend() {
  return concat("<p class=\"note\">", key("error", "error of B against A"),
                key("own", "what the call itself adds"),
                key("explained", "what its dtypes explain of that"),
                key("first", "first difference"), key("beyond", "beyond its dtypes"),
                key("equal", "equal bit for bit"), "</p>\n");
}

std::vector<std::string> row_of(const ComparedResult& result) {
  const auto own = [&](double value) {
    return result.own.is_measured ? format_number(value, 3) : std::string();
  };
  const numbers::TensorDifference& difference = result.difference;
  return {result.id.output == 0 ? result.id.call.text()
                                : concat(result.id.call.text(), ", result ", result.id.output + 1),
          dtypes_text(result.dtype_a, result.dtype_b),
          concat(result.shape),
          percent_of(difference.differing, difference.count),
          format_number(result.error, 3),
          format_number(result.input_error, 3),
          own(result.own.error),
          own(result.own.explained),
          format_number(difference.largest_to_rms(), 3)};
}

std::string results_table(const Comparison& found, const char* caption, auto&& is_wanted) {
  Table rows{.header = {"call", "dtypes", "shape", "differ", "error", "of inputs", "own",
                        "explained", "largest / rms"}};
  for (const ComparedResult& result : found.results) {
    if (is_wanted(result)) rows.rows.push_back(row_of(result));
  }
  return rows.rows.empty() ? std::string() : table(rows, caption);
}

Section network_section(const Comparison& found) {
  Section section{
      .id = "network",
      .title = "The network",
      .intro =
          "Each mark is a result of a call, in the order of the network: outputs on one side of "
          "the axis, their gradients on the other. Its height is the relative error of B "
          "against A, as 2-norms, on a logarithmic scale. Most of it came in with the call's "
          "inputs; where it was measured, a ring shows what the call itself adds, and a bar "
          "what the dtypes explain of that. Point at a mark for its numbers."};
  section.add(concat(figure(diff_chart(found)), legend()));
  return section;
}

Section beyond_section(const Comparison& found) {
  Section section{.id = "beyond",
                  .title = "Beyond their dtypes",
                  .intro = "Calls that add more than rounding in their dtypes explains."};
  section.add(results_table(found, "Results beyond what their dtypes explain",
                            [](const ComparedResult& result) { return result.is_jump; }));
  return section;
}

Section tensors_section(const char* id, const char* title, const char* intro,
                        const std::vector<ComparedTensor>& tensors) {
  Section section{.id = id, .title = title, .intro = intro};
  Table rows{.header = {"name", "dtypes", "differ", "error", "largest / rms"}};
  for (const ComparedTensor& tensor : tensors) {
    if (tensor.difference.is_equal()) continue;
    rows.rows.push_back({tensor.name, dtypes_text(tensor.dtype_a, tensor.dtype_b),
                         percent_of(tensor.difference.differing, tensor.difference.count),
                         format_number(tensor.error, 3),
                         format_number(tensor.difference.largest_to_rms(), 3)});
  }
  if (!rows.rows.empty()) section.add(table(rows, title));
  return section;
}

Section results_section(const Comparison& found) {
  Section section{.id = "results",
                  .title = "All results",
                  .intro =
                      "In the order in which B computed them; those that are equal bit for bit "
                      "are left out."};
  const std::string rows = results_table(
      found, "All results that differ",
      [](const ComparedResult& result) { return result.reason != numbers::Reason::kEqual; });
  if (!rows.empty()) section.add(details("Show the table", rows));
  if (found.not_compared.empty()) return section;
  Table others{.header = {"call", "why it is not compared"}};
  for (const numbers::NotCompared& other : found.not_compared) {
    others.rows.push_back({other.id.call.text(), other.why});
  }
  section.add("Not compared", details(concat(found.not_compared.size(), " results"),
                                      table(others, "Results that are not compared")));
  return section;
}

}  // namespace

std::string diff_page(const Comparison& found) {
  Document document{.title = concat(found.a.title, " and ", found.b.title),
                    .kind = "mezzo comparison of a step",
                    .style = kDiffStyle};
  document.html = concat(verdict_of(found), facts_of("A", found.a), facts_of("B", found.b));
  document.add(
      {network_section(found), beyond_section(found),
       tensors_section("gradients", "Gradients of parameters",
                       "What the update gets, divided by the loss scale.", found.gradients),
       tensors_section("sources", "Before the step",
                       "Parameters, buffers and the batch: what differed from the "
                       "beginning.",
                       found.sources),
       results_section(found)},
      {});
  return to_html(document);
}

void write_diff_page(const std::string& path, const Comparison& found) {
  const std::string html = diff_page(found);
  io::write_file(path, std::as_bytes(std::span(html.data(), html.size())), "report");
}

}  // namespace mezzo::report

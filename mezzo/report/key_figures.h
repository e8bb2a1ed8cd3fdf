// The few numbers of a run that matter, which stand at the top of its page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mezzo/report/run_data.h"

namespace mezzo::report {

struct KeyFigure {
  std::string name{};
  std::string value{};
  std::string remark{};  // in small letters below; may be empty
};

// The value of a row of the configuration; empty if there is none of that name.
std::string fact_of(const RunData& run, const std::string& name);

// The median of the steps' times in ms, if they were measured.
std::optional<double> step_ms_of(const RunData& run);

// The accuracy or the perplexity after the last epoch, of which there must be one.
std::string quality_text(const RunData& run);

// Model, precision, loss, accuracy or perplexity, time of a step, skipped steps and peak memory, as
// far as they are known.
std::vector<KeyFigure> key_figures(const RunData& run);

}  // namespace mezzo::report

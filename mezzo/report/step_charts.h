// Charts of one value per step or epoch, for one run or for several.
#pragma once

#include <span>
#include <string>

#include "mezzo/report/line_chart.h"
#include "mezzo/report/run_data.h"

namespace mezzo::report {

// A chart of one value per step for every run. That of a single run has marks at skipped steps.
LineChart step_chart(std::span<const RunData> runs, const std::string& label,
                     double StepRecord::*value);

// The steps that a run skipped, with the reason.
std::vector<Mark> skipped_marks(const RunData& run);

std::string loss_chart(std::span<const RunData> runs);

// How the networks did on the test set as they were trained: the accuracy by epoch or, of language
// models, the loss by step. Empty if there is only one value, which makes no curve. All runs of a
// page have one model.
std::string test_chart(std::span<const RunData> runs);
// What test_chart() shows: `Test loss`.
std::string test_chart_title(std::span<const RunData> runs);

}  // namespace mezzo::report

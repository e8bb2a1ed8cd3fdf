// The chart of a tuned network: the time and the error of every setting, and which of them no other
// one beats.
#pragma once

#include <string>

#include "mezzo/tune/tune.h"

namespace mezzo::report {

// To the left is faster, and lower is more exact, on a logarithmic scale. A line joins the Pareto
// front. Settings whose gradients are not finite stand at the upper edge.
std::string tune_chart(const tune::TuneResult& result);

inline constexpr const char* kTuneStyle = R"css(
.front { fill: none; stroke: var(--c0); stroke-width: 1.4; stroke-dasharray: 4 3; }
.budget { stroke: var(--lost); stroke-width: 1.2; stroke-dasharray: 2 3; }
.level { stroke: var(--soft); } .plan { stroke: var(--c0); } .chosen { stroke: var(--c2); }
.over { stroke: var(--lost); }
i.level { background: var(--soft); } i.plan { background: var(--c0); }
i.chosen { background: var(--c2); } i.over { background: var(--lost); }
)css";

}  // namespace mezzo::report

// The chart of a comparison: the network from left to right, with the error of each call.
#pragma once

#include <string>

#include "mezzo/numbers/compare.h"

namespace mezzo::report {

// Two drawings of the same: from left to right for wide screens, from top to bottom for narrow
// ones. A style sheet shows one of them (kDiffStyle). Forward calls stand above the axis, or to its
// right; the gradients of a call below it, or to its left. The height is the logarithm of the
// relative error.
std::string diff_chart(const numbers::Comparison& found);

// What a mark stands for, in words: `conv1: conv2d, relative error 0.0012, ...`.
std::string mark_text(const numbers::ComparedResult& result);

inline constexpr const char* kDiffStyle = R"css(
.down { display: none; }
svg .name { fill: var(--text); font-size: 11px; } svg .number { font-size: 11px; }
@media (max-width: 40rem) { .across { display: none; } .down { display: block; } }
.stem { stroke: var(--c0); stroke-width: 1.6; } .stem.beyond { stroke: var(--lost); }
.stem.first { stroke: var(--c3); }
.tip { fill: var(--c0); } .tip.beyond { fill: var(--lost); } .tip.first { fill: var(--c3); }
.tip.equal { fill: var(--good); }
.own { fill: none; stroke: var(--c1); stroke-width: 1.4; }
.explained { stroke: var(--text); stroke-opacity: .75; stroke-width: 1.4; }
i.error { background: var(--c0); } i.own { background: var(--c1); }
i.explained { background: var(--text); } i.first { background: var(--c3); }
i.beyond { background: var(--lost); } i.equal { background: var(--good); }
)css";

}  // namespace mezzo::report

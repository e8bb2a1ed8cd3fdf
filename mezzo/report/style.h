// The style sheet of the report.
#pragma once

namespace mezzo::report {

inline constexpr const char* kStyle = R"css(
:root {
  color-scheme: light dark;
  --ground: #fbfbf9; --card: #ffffff; --text: #1d2125; --soft: #5d6670; --edge: #dfe2e4;
  --accent: #1f5fbf; --good: #1d7a4a;
  --c0: #1f5fbf; --c1: #c4571a; --c2: #1d7a4a; --c3: #7646b8; --c4: #0f7d8c; --c5: #b0356f;
  --kept: #1f5fbf; --weak: #d99a17; --lost: #cf3f1d; --over: #8a1f6b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --card: #1b1f23; --text: #e6e8ea; --soft: #98a2ac; --edge: #31373d;
    --accent: #7fb0ff; --good: #63c795;
    --c0: #7fb0ff; --c1: #f0986a; --c2: #63c795; --c3: #bb98f0; --c4: #5fc4d2; --c5: #ee86b7;
    --kept: #7fb0ff; --weak: #e8b64c; --lost: #f2714f; --over: #e07fc4;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }
header, main { max-width: 54rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; } main { padding-bottom: 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .25rem; letter-spacing: -.015em; }
h1, h2, .verdict { overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; margin: 2.75rem 0 .75rem; letter-spacing: -.01em; }
h3, h4 { font-size: 1rem; margin: 2rem 0 .4rem; }
p { margin: .4rem 0; }
.sub, .note, .empty { color: var(--soft); }
.note { font-size: .875rem; }
.verdict { background: var(--card); border: 1px solid var(--edge);
  border-left: 4px solid var(--accent); border-radius: 6px; padding: .9rem 1.2rem; }
.verdict p { margin: .3rem 0; }
figure { margin: .5rem 0 0; background: var(--card); border: 1px solid var(--edge);
  border-radius: 6px; padding: .8rem .8rem .4rem; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .name { fill: var(--text); font-size: 11px; }
svg .number { font-size: 11px; }
.axis, .grid { stroke: var(--edge); fill: none; }
.axis { stroke: var(--soft); }
.plot { fill: var(--ground); }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.line.dashed { stroke-dasharray: 7 4; } .line.dotted { stroke-dasharray: 2 4; }
.band { fill-opacity: .18; stroke: none; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); }
.c3 { stroke: var(--c3); } .c4 { stroke: var(--c4); } .c5 { stroke: var(--c5); }
.band.c0, .dot.c0 { fill: var(--c0); } .band.c1, .dot.c1 { fill: var(--c1); }
.band.c2, .dot.c2 { fill: var(--c2); } .band.c3, .dot.c3 { fill: var(--c3); }
.band.c4, .dot.c4 { fill: var(--c4); } .band.c5, .dot.c5 { fill: var(--c5); }
.band { stroke: none; }
.mark { stroke: var(--lost); stroke-opacity: .55; stroke-dasharray: 3 3; }
.mark-dot { fill: var(--lost); }
.kept { fill: var(--kept); } .weak { fill: var(--weak); } .lost { fill: var(--lost); }
.over { fill: var(--over); }
.range { fill: var(--soft); fill-opacity: .55; } .weak-range { fill-opacity: .22; }
.limit { stroke: var(--text); stroke-opacity: .6; } .scaled { stroke-dasharray: 4 3; }
.key { display: inline-block; margin-right: 1rem; white-space: nowrap; }
.key i { display: inline-block; width: .7em; height: .7em; border-radius: 2px;
  margin-right: .4em; }
i.kept { background: var(--kept); } i.weak { background: var(--weak); }
i.lost { background: var(--lost); } i.over { background: var(--over); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr));
  gap: .35rem 1.5rem; margin: 1.25rem 0 0; }
.facts div { border-top: 1px solid var(--edge); padding-top: .3rem; }
dt { color: var(--soft); font-size: .8125rem; } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
table { border-collapse: collapse; font-size: .8125rem; line-height: 1.4; width: 100%; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--edge);
  vertical-align: top; }
thead th { color: var(--soft); font-weight: 500; white-space: nowrap; }
tbody th { font-weight: 500; }
td { font-variant-numeric: tabular-nums; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(5.2rem, 1fr));
  gap: .6rem; }
.pictures figure { margin: 0; padding: .3rem; }
.pictures img { display: block; width: 100%; height: auto; image-rendering: pixelated; }
figcaption { color: var(--soft); font-size: .75rem; text-align: center; line-height: 1.4;
  overflow-wrap: anywhere; }
@media print {
  body { background: none; font-size: 11pt; } main { max-width: none; padding: 0; }
  figure, .verdict, tr { break-inside: avoid; } h2, h3 { break-after: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

}  // namespace mezzo::report

// The style sheet of the report, without its colours.
#pragma once

namespace mezzo::report {

inline constexpr const char* kStyle = R"css(
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-padding-top: 1rem; }
@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui,
  -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
header, main, nav { max-width: 58rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; } main { padding-bottom: 4rem; } main:focus { outline: none; }
a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 2px; }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--card); padding: .4rem .8rem; z-index: 1; }
h1, h2, h3, h4 { line-height: 1.25; overflow-wrap: anywhere; letter-spacing: -.01em; }
h1 { font-size: 1.625rem; font-weight: 650; margin: .15rem 0 .5rem; }
h2 { font-size: 1.25rem; font-weight: 650; margin: 2.75rem 0 .5rem; padding-top: 1rem;
  border-top: 1px solid var(--edge); }
main > :first-child > h2:first-child { margin-top: 1.5rem; }
h3 { font-size: 1rem; font-weight: 600; margin: 1.75rem 0 .4rem; }
h4 { font-size: .9375rem; font-weight: 600; margin: 1.5rem 0 .4rem; }
article h3 { font-size: 1.0625rem; }
p { margin: .4rem 0; max-width: 46rem; }
.sub, .note, .empty, figcaption, small { color: var(--soft); }
.sub { font-size: .8125rem; margin: 0; }
.note { font-size: .875rem; }
.status { font-size: .9375rem; margin: 0; }
.running { color: var(--running); font-weight: 600; }

nav ul { list-style: none; margin: 0; padding: 0; }
nav > ul { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; padding-top: .75rem; }
nav ul ul { display: none; }
nav a { display: inline-block; padding: .3rem 0; font-size: .875rem; text-decoration: none;
  overflow-wrap: anywhere; }
nav a:hover { text-decoration: underline; }

.figures { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); margin: .75rem 0 1rem;
  border: 1px solid var(--edge); border-width: 1px 0 0 1px; }
.figures div { background: var(--card); border: 1px solid var(--edge); border-width: 0 1px 1px 0;
  padding: .6rem .8rem .65rem; }
.figures dd { font-size: 1.3125rem; font-weight: 600; line-height: 1.3; letter-spacing: -.01em;
  font-variant-numeric: tabular-nums; }
.figures small { display: block; font-size: .75rem; font-weight: 400; letter-spacing: 0; }
.verdict p { margin: .35rem 0; font-size: .9375rem; overflow-wrap: anywhere; }
.verdict p:first-child { font-weight: 600; font-size: 1rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(14rem, 100%), 1fr));
  gap: .3rem 1.5rem; margin: .5rem 0 0; font-size: .875rem; }
.facts div { border-top: 1px solid var(--edge); padding-top: .25rem; }
dt { color: var(--soft); font-size: .8125rem; } dd { margin: 0; overflow-wrap: anywhere; }

figure { margin: .5rem 0 0; padding: .75rem .5rem .6rem; background: var(--card);
  border: 1px solid var(--edge); border-radius: 4px; }
figcaption { font-size: .8125rem; line-height: 1.45; padding: .35rem .4rem 0;
  font-variant-numeric: tabular-nums; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.25rem; margin: .3rem 0 0;
  padding: 0 .4rem; font-size: .8125rem; font-variant-numeric: tabular-nums; }
.legend svg { display: inline-block; margin-right: .45em; vertical-align: .1em; }
.legend b { font-weight: 600; }

svg { display: block; overflow: visible; }
svg[viewBox][role] { width: 100%; height: auto; }
.plot path, .plot rect { vector-effect: non-scaling-stroke; }
svg text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.names text { fill: var(--text); font-size: 11px; } .numbers text { font-size: 11px; }
.names text, .numbers text { text-anchor: end; }
.axis, .grid { stroke: var(--edge); fill: none; } .axis { stroke: var(--soft); }
.ground { fill: var(--ground); }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.s1 { stroke-dasharray: 8 3; } .s2 { stroke-dasharray: 2 3; } .s3 { stroke-dasharray: 8 3 2 3; }
.s4 { stroke-dasharray: 14 4; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); }
.c3 { stroke: var(--c3); } .c4 { stroke: var(--c4); } .c5 { stroke: var(--c5); }
.band { stroke: none; fill-opacity: .2; }
.band.c0 { fill: var(--c0); } .band.c1 { fill: var(--c1); } .band.c2 { fill: var(--c2); }
.band.c3 { fill: var(--c3); } .band.c4 { fill: var(--c4); } .band.c5 { fill: var(--c5); }
.dot, .mark-dot { stroke-width: 7; stroke-linecap: round; stroke-dasharray: none; }
.mark { stroke: var(--lost); stroke-opacity: .6; stroke-dasharray: 3 3; fill: none; }
.mark-dot { stroke: var(--lost); }
.kept { fill: var(--kept); } .weak { fill: var(--weak); } .lost { fill: var(--lost); }
.over { fill: var(--over); }
.cells path { fill: none; stroke-width: 13; }
.cells .kept { stroke: var(--kept); } .cells .weak { stroke: var(--weak); }
.cells .lost { stroke: var(--lost); } .cells .over { stroke: var(--over); }
.range { fill: var(--soft); fill-opacity: .55; } .weak-range { fill-opacity: .22; }
.limit { stroke: var(--text); stroke-opacity: .6; fill: none; } .scaled { stroke-dasharray: 4 3; }
.key { display: inline-block; margin-right: 1rem; }
.key i { display: inline-block; width: .75em; height: .75em; margin-right: .4em; }
i.kept { background: var(--kept); } i.weak { background: var(--weak); }
i.lost { background: var(--lost); } i.over { background: var(--over); }

.wide { overflow-x: auto; } .wide > svg { min-width: 44rem; max-width: 54rem; }
table { border-collapse: collapse; font-size: .8125rem; line-height: 1.4; width: 100%; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { text-align: left; padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--edge);
  vertical-align: top; font-variant-numeric: tabular-nums; }
th { font-weight: 500; } thead th { color: var(--soft); white-space: nowrap; }
summary { cursor: pointer; font-size: .875rem; padding: .35rem 0; color: var(--accent); }
details { margin: .5rem 0 0; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(5rem, 1fr)); gap: .5rem; }
.pictures figure { margin: 0; padding: .3rem; }
.pictures img { display: block; width: 100%; height: auto; image-rendering: pixelated; }
.pictures figcaption { font-size: .75rem; text-align: center; padding: .2rem 0 0;
  overflow-wrap: anywhere; }

@media (max-width: 40rem) {
  .between { display: none; } .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .facts { gap: 0; } .facts div { display: grid; grid-template-columns: 7.5rem minmax(0, 1fr);
    padding: .2rem 0; } .facts dt { font-size: .8125rem; }
  .figures dd { font-size: 1.125rem; } h1 { font-size: 1.375rem; } body { font-size: 15px; }
}
@media (min-width: 76rem) {
  body { display: grid; grid-template-columns: 11rem minmax(0, 58rem); column-gap: 2rem;
    justify-content: center; grid-template-rows: auto 1fr; }
  header, main { grid-column: 2; margin: 0; width: 100%; }
  nav { grid-column: 1; grid-row: 1 / span 2; position: sticky; top: 0; align-self: start;
    max-height: 100vh; overflow-y: auto; margin: 0; padding: 1.25rem 0 1rem 1rem; width: 100%; }
  nav > ul { display: block; padding: 0; } nav ul ul { display: block; padding-left: .75rem; }
  nav a { display: block; padding: .2rem 0; }
}
@media print {
  @page { margin: 15mm; }
  body { display: block; font-size: 10.5pt; } header, main { max-width: none; padding: 0; }
  nav, .skip { display: none; }
  figure, .figures, .verdict, .facts div, tr, svg, p { break-inside: avoid; }
  h1, h2, h3, h4, thead, .note { break-after: avoid; } article { break-before: page; }
  thead { display: table-header-group; }
  .wide { overflow: visible; } .wide > svg { min-width: 0; }
  thead th { white-space: normal; } table { font-size: 8.5pt; } th, td { overflow-wrap: anywhere; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

}  // namespace mezzo::report

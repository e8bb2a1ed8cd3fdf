// The colours of the report, for light and dark screens and for paper. Letters have a contrast of
// at least 4.5 to 1 against both grounds. No colour is the only sign of anything.
#pragma once

namespace mezzo::report {

inline constexpr const char* kPalette = R"css(
:root {
  color-scheme: light dark;
  --ground: #fbfbfa; --card: #ffffff; --text: #1b1f23; --soft: #59626b; --edge: #dde1e4;
  --accent: #1c58b0; --running: #17683f;
  --c0: #1c58b0; --c1: #b84a12; --c2: #1a6e43; --c3: #6d3fae; --c4: #0b7280; --c5: #a82f67;
  --kept: #2a66bd; --weak: #b57b08; --lost: #c43a19; --over: #861d67;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --card: #1a1e22; --text: #e6e8ea; --soft: #9ba5af; --edge: #31373d;
    --accent: #84b4ff; --running: #6acb9b;
    --c0: #84b4ff; --c1: #f19b6e; --c2: #6acb9b; --c3: #bf9ff2; --c4: #63c6d4; --c5: #ef8bba;
    --kept: #7aaefc; --weak: #e6b54d; --lost: #f2744f; --over: #e083c6;
  }
}
@media print {
  :root {
    color-scheme: light;
    --ground: #ffffff; --card: #ffffff; --text: #000000; --soft: #404040; --edge: #c4c4c4;
    --accent: #000000; --running: #000000;
    --c0: #1c58b0; --c1: #b84a12; --c2: #1a6e43; --c3: #6d3fae; --c4: #0b7280; --c5: #a82f67;
    --kept: #2a66bd; --weak: #b57b08; --lost: #c43a19; --over: #861d67;
  }
}
)css";

}  // namespace mezzo::report

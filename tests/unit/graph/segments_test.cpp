#include "mezzo/graph/segments.h"

#include <gtest/gtest.h>

namespace mezzo::graph {
namespace {

// One letter per node.
std::vector<Part> parts_of(std::string_view text) {
  std::vector<Part> parts;
  for (const char c : text) {
    switch (c) {
      case 'c': parts.push_back(Part::kCall); break;
      case 'p': parts.push_back(Part::kPrepared); break;
      case 'h': parts.push_back(Part::kHostWork); break;
      case 'r': parts.push_back(Part::kReturned); break;
      case 'e': parts.push_back(Part::kElsewhere); break;
      case 'f': parts.push_back(Part::kReference); break;
      case 't': parts.push_back(Part::kTogether); break;
      default: parts.push_back(Part::kRefused);
    }
  }
  return parts;
}

std::vector<Segment> segments_of(std::string_view text) { return find_segments(parts_of(text)); }
using Segments = std::vector<Segment>;

TEST(Segments, AreAsLongAsNothingEndsThem) {
  EXPECT_EQ(segments_of("cccc"), (Segments{{0, 4}}));
  EXPECT_EQ(segments_of("cchcc"), (Segments{{0, 2}, {3, 5}}));
  for (const char other : std::string_view("hre?ftx")) {
    EXPECT_EQ(segments_of(std::string("cc") + other + "ccc"), (Segments{{0, 2}, {3, 6}})) << other;
  }
}

TEST(Segments, TakeCopiesAndViewsInTheMiddleOnly) {
  EXPECT_EQ(segments_of("ppcpcpp"), (Segments{{2, 5}}));
  EXPECT_EQ(segments_of("pcpphccp"), (Segments{{5, 7}}));
}

TEST(Segments, OneCallIsNotWorthIt) {
  EXPECT_EQ(segments_of(""), Segments{});
  EXPECT_EQ(segments_of("chcpphpp"), Segments{});
}

TEST(Segments, AreDescribed) {
  const auto describe = [](std::string_view text) {
    return describe_segments(parts_of(text), segments_of(text));
  };
  EXPECT_EQ(describe("ccpc"), "3 of 3 calls in 1 recordings");
  EXPECT_EQ(describe("ccfcphccre"),
            "4 of 8 calls in 2 recordings; not recorded: 1 alone, 1 returned, 1 of inputs "
            "elsewhere, 1 computed on the host");
  EXPECT_EQ(describe("fx"),
            "0 of 2 calls in 0 recordings; not recorded: 1 computed on the host, 1 refused");
  EXPECT_EQ(describe("cctcc"),
            "4 of 5 calls in 2 recordings; not recorded: 1 exchanged between processes");
}

}  // namespace
}  // namespace mezzo::graph

#include "mezzo/graph/dot.h"

#include <gtest/gtest.h>

#include "tests/unit/graph/dot_text.h"
#include "tests/unit/graph/paints_of.h"

namespace mezzo::graph {
namespace {

DotText picture_of(std::string_view text) { return DotText(to_dot(program_in(text))); }

TEST(Dot, ShowsCallsValuesAndHostWork) {
  const DotText picture = picture_of(R"(program(x: f32[4, 8], y: f16[4]) {
  state w: bf16[2, 8]
  state unused: f32[3]
  %0: bf16[4, 8] = cast(x) {dtype=bf16} @body.fc
  %1: bf16[4, 2] = linear(%0, w, _) @body.fc
  host watch(%1)
  host begin()
  %2: f16[4] = relu(y)
  %3: bf16[4, 2] = relu_grad(%1, %1) #backward
  %4: f32[4, 8] = relu(x) #backward
  host update(%3, _) #update
  return %4
}
)");
  EXPECT_EQ(picture.clusters,
            (std::vector<std::string>{"cluster_forward", "cluster_backward", "cluster_update"}));
  ASSERT_EQ(picture.nodes.size(), 8U + 3U + 1U) << "calls, x, y and w, and what is returned";
  EXPECT_EQ(picture.nodes.at("n1").at("label"), "linear\\nbody.fc");
  EXPECT_EQ(picture.nodes.at("n4").at("label"), "relu");
  EXPECT_EQ(picture.nodes.at("n2").at("label"), "watch");
  EXPECT_FALSE(picture.nodes.at("n2").contains("fillcolor"));
  EXPECT_EQ(picture.nodes.at("v2").at("shape"), "oval");
  EXPECT_EQ(picture.nodes.at("v2").at("label"), "w");
  EXPECT_EQ(picture.edges.at({"v0", "n0"}).at("label"), "f32[4, 8]");
  EXPECT_EQ(picture.edges.at({"v2", "n1"}).at("label"), "bf16[2, 8]");
  EXPECT_EQ(picture.edges.at({"n5", "n7"}).at("label"), "bf16[4, 2]");
  EXPECT_EQ(picture.edges.at({"n6", "return"}).at("label"), "f32[4, 8]");
  EXPECT_EQ(picture.edges.at({"n2", "n3"}).at("style"), "dotted") << "it reads nothing";
}

TEST(Dot, ColoursByTheDtypeThatCallsComputeIn) {
  const DotText picture = picture_of(R"(program(x: f32[4, 8]) {
  state w: bf16[2, 8]
  %0: bf16[4, 8] = cast(x) {dtype=bf16}
  %1: bf16[4, 2] = linear(%0, w, _)
  %2: f32[4, 8] = relu(x)
  %3: f16[4, 8] = cast(x) {dtype=f16}
  return %1
}
)");
  const auto fill = [&](const char* node) { return picture.nodes.at(node).at("fillcolor"); };
  EXPECT_EQ(fill("n0"), fill("n1")) << "a cast shows what it gives, a call what it reads";
  EXPECT_NE(fill("n1"), fill("n2"));
  EXPECT_NE(fill("n3"), fill("n1"));
  EXPECT_NE(fill("n3"), fill("n2"));
}

// Names may contain any characters.
TEST(Dot, EscapesWhatWouldEndAText) {
  Program program = program_in(R"(program(x: f32[4]) {
  %0: f32[4] = relu(x)
  host watch(%0)
  return %0
}
)");
  const std::string bad = "a\"b\\c\nd];}";
  program.values[program.inputs[0]].name = bad;
  program.nodes[0].path = bad;
  program.nodes[0].reason = bad;
  program.nodes[1].host = bad;
  const DotText picture(to_dot(program));
  EXPECT_EQ(picture.nodes.at("v0").at("label"), "a\"b\\c\\nd];}");
  EXPECT_EQ(picture.nodes.at("n0").at("label"), "relu\\na\"b\\c\\nd];}");
  EXPECT_EQ(picture.nodes.at("n1").at("label"), "a\"b\\c\\nd];}");
}

TEST(Dot, AnEmptyProgramIsAPicture) {
  const DotText picture(to_dot(Program()));
  EXPECT_TRUE(picture.nodes.empty());
}

}  // namespace
}  // namespace mezzo::graph

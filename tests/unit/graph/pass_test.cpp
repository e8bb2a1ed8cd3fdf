#include "mezzo/graph/pass.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/text.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two casts of which one is enough, and a third that nobody reads.
constexpr const char* kText = R"(program(x: f32[2]) {
  %0: bf16[2] = cast(x) {dtype=bf16}
  %1: bf16[2] = relu(%0)
  %2: f32[2] = cast(%1) {dtype=f32}
  %3: bf16[2] = cast(%2) {dtype=bf16}
  %4: bf16[2] = relu(%3)
  %5: f16[2] = cast(x) {dtype=f16}
  return %4
}
)";

const std::vector<Pass> kPasses{kFoldCasts, kDeadCode};

// Sets the environment variable while it exists.
class DisabledPasses {
 public:
  explicit DisabledPasses(const char* names) { setenv("MEZZO_DISABLE_PASSES", names, 1); }
  ~DisabledPasses() { unsetenv("MEZZO_DISABLE_PASSES"); }
  DisabledPasses(const DisabledPasses&) = delete;
  DisabledPasses& operator=(const DisabledPasses&) = delete;
};

std::vector<std::string> names_of(const PassLog& log) {
  std::vector<std::string> names;
  for (const PassRecord& record : log) names.push_back(record.name);
  return names;
}

TEST(PassRunner, RecordsWhatEachPassDid) {
  Program program = parse_program(kText);
  const PassLog log = PassRunner(kPasses).run(program);
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[0].name, "fold_casts");
  EXPECT_EQ(log[0].changes, 2U);
  EXPECT_EQ(log[0].nodes_before, 6U);
  EXPECT_EQ(log[0].nodes_after, 4U);
  EXPECT_EQ(log[0].casts_before, 4U);
  EXPECT_EQ(log[0].casts_after, 2U);
  EXPECT_GE(log[0].ms, 0);
  EXPECT_EQ(log[1].name, "dead_code");
  EXPECT_EQ(log[1].changes, 1U);
  EXPECT_EQ(log[1].nodes_before, 4U);
  EXPECT_EQ(log[1].nodes_after, 3U);
  EXPECT_EQ(log[1].casts_before, 2U);
  EXPECT_EQ(log[1].casts_after, 1U);
  EXPECT_EQ(to_text(program), R"(program(x: f32[2]) {
  %0: bf16[2] = cast(x) {dtype=bf16}
  %1: bf16[2] = relu(%0)
  %2: bf16[2] = relu(%1)
  return %2
}
)");
}

TEST(PassRunner, LeavesOutWhatTheOptionsName) {
  Program program = parse_program(kText);
  EXPECT_THAT(names_of(PassRunner(kPasses, {.disabled = {"fold_casts"}}).run(program)),
              ElementsAre("dead_code"));
  EXPECT_EQ(program.nodes.size(), 5U);
}

TEST(PassRunner, LeavesOutWhatTheEnvironmentNames) {
  const DisabledPasses environment("fold_casts,,dead_code");
  Program program = parse_program(kText);
  EXPECT_TRUE(PassRunner(kPasses).run(program).empty());
  EXPECT_EQ(to_text(program), kText);
}

TEST(PassRunner, RefusesNamesThatNoPassHas) {
  constexpr const char* kMessage =
      "[graph] there is no pass `fold_cast` to leave out. Known passes are fold_casts, dead_code";
  EXPECT_EQ(message_of<ArgumentError>([] { PassRunner(kPasses, {.disabled = {"fold_cast"}}); }),
            kMessage);
  const DisabledPasses environment("dead_code,fold_cast");
  EXPECT_EQ(message_of<ArgumentError>([] { PassRunner runner(kPasses); }), kMessage);
}

TEST(PassRunner, NamesThePassThatBreaksTheProgram) {
  const Pass breaks{"breaks", "takes the last node away", [](Program& program) {
                      program.nodes.pop_back();
                      return std::size_t{1};
                    }};
  Program program = parse_program(kText);
  const std::string message = message_of<ArgumentError>([&] {
    PassRunner({kDeadCode, breaks, kFoldCasts}).run(program);
  });
  EXPECT_EQ(message,
            "[graph] the program is invalid after the pass breaks: [graph] the program returns %4, "
            "which nothing computes");
}

TEST(PassRunner, LooksAtTheProgramBeforeTheFirstPass) {
  Program program = parse_program(kText);
  program.nodes.pop_back();
  program.nodes.pop_back();
  EXPECT_THAT(message_of<ArgumentError>([&] { PassRunner({}).run(program); }),
              HasSubstr("invalid before the first pass"));
#ifdef NDEBUG
  EXPECT_NO_THROW(PassRunner({}, {.verify = false}).run(program));
#else
  EXPECT_THROW(PassRunner({}, {.verify = false}).run(program), ArgumentError);
#endif
}

}  // namespace
}  // namespace mezzo::graph

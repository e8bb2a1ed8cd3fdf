#include "mezzo/core/log.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace mezzo::logging {
namespace {

// Collects the lines that are written during a test.
class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    set_sink([this](Topic topic, std::string_view line) { lines_.emplace_back(topic, line); });
  }
  void TearDown() override { set_sink(nullptr); }

  std::vector<std::pair<Topic, std::string>> lines_;
};

TEST_F(Log, WarningsAreAlwaysOn) {
  EXPECT_TRUE(is_enabled(Topic::kWarning));
  write(Topic::kWarning, "slow: ", 3, " times");
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_[0], std::pair(Topic::kWarning, std::string("slow: 3 times")));
}

TEST_F(Log, OtherTopicsFollowTheEnvironment) {
  write(Topic::kAmp, "scale is now ", 2);
  EXPECT_EQ(lines_.size(), is_enabled(Topic::kAmp) ? 1U : 0U);
}

TEST_F(Log, WarnsOncePerText) {
  for (int i = 0; i < 3; ++i) {
    warn_once("log_test: first");
    warn_once("log_test: second");
  }
  ASSERT_EQ(lines_.size(), 2U);
  EXPECT_EQ(lines_[0].second, "log_test: first");
  EXPECT_EQ(lines_[1].second, "log_test: second");
}

}  // namespace
}  // namespace mezzo::logging

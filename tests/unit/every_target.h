// Runs a test once for each instruction set of this build and CPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace mezzo::test {

class OnEveryTarget : public testing::TestWithParam<std::int64_t> {
 protected:
  OnEveryTarget() { choose(GetParam()); }
  ~OnEveryTarget() override { choose(0); }

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
  }
};

inline std::string target_name(const testing::TestParamInfo<std::int64_t>& parameter) {
  return hwy::TargetName(parameter.param);
}

}  // namespace mezzo::test

#include <gtest/gtest.h>

#include "mezzo/amp/policy.h"

namespace mezzo::amp {
namespace {

using Class = PrecisionClass;

TEST(Level, NamesParseBack) {
  for (const Level level : kLevels) EXPECT_EQ(parse_level(name_of(level)), level);
  EXPECT_FALSE(parse_level("O4").has_value());
  EXPECT_FALSE(parse_level("").has_value());
}

TEST(Level, ActionsFollowTheTable) {
  struct Row {
    Class precision_class;
    CastAction o1;
    CastAction automatic;
    CastAction o2;
    CastAction o3;
  };
  using A = CastAction;
  const Row table[] = {
      {Class::kLower, A::kToLower, A::kToLower, A::kToLower, A::kToLower},
      {Class::kFloat32, A::kToFloat32, A::kToFloat32, A::kToFloat32, A::kToLower},
      {Class::kWidest, A::kToFloat32, A::kNone, A::kToLower, A::kToLower},
      {Class::kFollow, A::kToFloat32, A::kNone, A::kToLower, A::kToLower},
      {Class::kKeep, A::kToFloat32, A::kNone, A::kNone, A::kToLower},
      {Class::kRefuse, A::kRefuse, A::kRefuse, A::kRefuse, A::kRefuse},
  };
  for (const Row& row : table) {
    EXPECT_EQ(action_for(Level::kO0, row.precision_class), A::kNone);
    EXPECT_EQ(action_for(Level::kO1, row.precision_class), row.o1);
    EXPECT_EQ(action_for(Level::kAuto, row.precision_class), row.automatic);
    EXPECT_EQ(action_for(Level::kO2, row.precision_class), row.o2);
    EXPECT_EQ(action_for(Level::kO3, row.precision_class), row.o3);
  }
}

TEST(Policy, O0IsF32WhateverTheLowerDType) {
  EXPECT_EQ((Policy{Level::kO0, DType::kF16}).dtype(), DType::kF32);
  EXPECT_EQ((Policy{Level::kO2, DType::kF16}).dtype(), DType::kF16);
}

}  // namespace
}  // namespace mezzo::amp

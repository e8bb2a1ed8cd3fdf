// Programs before and after a pass, as texts.
#pragma once

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "mezzo/graph/pass.h"
#include "mezzo/graph/text.h"
#include "mezzo/graph/verify.h"

namespace mezzo::graph {

// The norm's result, of 8 KB, is read by the next operation and by its gradient.
inline constexpr const char* kNormKeptForBackward = R"(program(x: f32[64, 32]) {
  %0: f32[64, 32] = relu(x)
  %1: f32[64, 32], %2: f32[32], %3: f32[32] = batch_norm(%0, _, _, _, _) {training=true relu=true eps=1e-05} @bn
  %4: f32[64, 32] = sigmoid(%1)
  %5: f32[64, 32] = relu(%4)
  %6: f32[64, 32] = mul(%4, %5)
  %7: f32[64, 32] = mul(%6, %1) #backward
  %8: f32[64, 32] = mul(%7, %0) #backward
  return %8
}
)";

// Expects that the pass makes `changes` changes to the program `before`, that the result is
// `after`, and that running the pass again changes nothing.
inline void expect_pass(const Pass& pass, std::string_view before, std::size_t changes,
                        std::string_view after) {
  Program program = parse_program(before);
  ASSERT_EQ(to_text(program), before) << "not as programs are printed";
  ASSERT_NO_THROW(verify(program));
  EXPECT_EQ(pass.run(program), changes);
  EXPECT_NO_THROW(verify(program));
  EXPECT_EQ(to_text(program), after);
  EXPECT_EQ(pass.run(program), 0U) << "not everything was done at once";
}

inline void expect_no_change(const Pass& pass, std::string_view text) {
  expect_pass(pass, text, 0, text);
}

}  // namespace mezzo::graph

// Programs before and after a pass, as texts.
#pragma once

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "mezzo/graph/pass.h"
#include "mezzo/graph/text.h"
#include "mezzo/graph/verify.h"

namespace mezzo::graph {

// Expects the pass to make `changes` changes to the program `before` that result in `after`, which
// leave nothing to do for it.
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

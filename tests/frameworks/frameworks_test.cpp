// Compares mezzo with recorded answers of PyTorch, MindSpore, MegEngine and OneFlow.
#include <algorithm>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/frameworks/differences.h"
#include "tests/frameworks/operations.h"

namespace mezzo::frameworks {

void PrintTo(const Difference& d, std::ostream* out) {  // NOLINT(readability-identifier-naming)
  *out << d.framework << ", " << d.where << ": " << d.what << " of `" << d.inputs << "`: there "
       << d.theirs << ", here " << d.ours;
}

namespace {

using Differences = std::vector<Difference>;

// The elements of one list that are not in the other. Both are sorted.
Differences without(const Differences& all, const Differences& taken) {
  Differences rest;
  std::ranges::set_difference(all, taken, std::back_inserter(rest));
  return rest;
}

TEST(Frameworks, EveryDifferenceHasItsReason) {
  EXPECT_THAT(without(found_differences(), differences_in(known_rows())), testing::IsEmpty())
      << "Give them their reason in tests/frameworks/differences.json";
}

TEST(Frameworks, EveryReasonHasItsDifference) {
  EXPECT_THAT(without(differences_in(known_rows()), found_differences()), testing::IsEmpty())
      << "Take them out of tests/frameworks/differences.json";
}

TEST(Frameworks, NoDifferenceIsExplainedTwice) {
  const Differences known = differences_in(known_rows());
  EXPECT_EQ(std::ranges::adjacent_find(known), known.end());
}

TEST(Frameworks, TheDocumentHasTheTable) {
  EXPECT_EQ(section_in(read_file(MEZZO_COMING_FROM)), section())
      << "Run build/test/bin/frameworks_table docs/coming_from.md";
}

}  // namespace
}  // namespace mezzo::frameworks

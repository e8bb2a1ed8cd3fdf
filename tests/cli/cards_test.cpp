// Tests commands that a launcher starts several times, on emulated cards.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kOnCards =
    "train --model mlp --amp O0 --steps 3 --quiet --device cuda --json ";

class CardsOfProcesses : public Command {
 protected:
  // Two processes; as root and on a single core, with messages through memory alone.
  Outcome run_two(const std::string& variables, const std::string& arguments) const {
    return run_line(
        concat("/usr/bin/env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
               "OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none ",
               variables, " " MEZZO_MPIRUN " --oversubscribe -n 2 " MEZZO_COMMAND " ", arguments));
  }

  // Each process computes half of what one process does with batches of twice that size. f32 sums
  // in another order differ only in their last bits.
  void expect_losses_of_one() const {
    ASSERT_EQ(run(concat(kOnCards, path("one"), " --batch-size 8")).status, 0);
    const std::vector<Json> one = steps_of(read_events("one"));
    const std::vector<Json> two = steps_of(read_events("two"));
    ASSERT_EQ(two.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      const double expected = one[i]["loss"];
      EXPECT_NEAR(two[i]["loss"], expected, 1e-5 * expected) << i;
    }
  }
};

TEST_F(CardsOfProcesses, OneCardIsShared) {
  const Outcome outcome = run_two("", concat(kOnCards, path("two"), " --batch-size 4"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors,
            "mezzo warning: processes exchange through host memory, not by NCCL: processes 0 and 1 "
            "share a card\n");
  expect_losses_of_one();
}

// The emulated NCCL connects threads, not processes.
TEST_F(CardsOfProcesses, EachMayHaveItsOwn) {
  const Outcome outcome = run_two("MEZZO_EMULATED_CARD_COUNT=2 MEZZO_NCCL=0",
                                  concat(kOnCards, path("two"), " --batch-size 4 --graph"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("not by NCCL: "), HasSubstr("MEZZO_NCCL=0")));
  expect_losses_of_one();
}

// A card that is named is that of all processes.
TEST_F(CardsOfProcesses, ACardThatIsMissingIsNamed) {
  const Outcome outcome =
      run_two("MEZZO_EMULATED_CARD_COUNT=2", "train --steps 1 --quiet --device cuda:2");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("there is no cuda:2: this machine has 2 usable CUDA GPUs"));
}

}  // namespace
}  // namespace mezzo::cli_tests

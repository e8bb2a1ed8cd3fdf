// Tests what processes read of the variables that launchers set.
#include "mezzo/distributed/launch.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/distributed/process_group.h"
#include "tests/unit/message_of.h"

namespace mezzo::distributed {
namespace {

using testing::HasSubstr;

constexpr const char* kNames[] = {"OMPI_COMM_WORLD_LOCAL_RANK",
                                  "MPI_LOCALRANKID",
                                  "LOCAL_RANK",
                                  "SLURM_LOCALID",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "PMI_SIZE",
                                  "SLURM_STEP_NUM_TASKS",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "RANK",
                                  "WORLD_SIZE",
                                  "TORCHELASTIC_RUN_ID",
                                  "TORCHELASTIC_RESTART_COUNT",
                                  "TORCHELASTIC_USE_AGENT_STORE",
                                  "MEZZO_WATCH_SECONDS"};

using Values = std::map<std::string, std::string>;

// Sets these variables of launchers, and no others, until its end.
class Variables {
 public:
  explicit Variables(const Values& values) {
    clear();
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  ~Variables() { clear(); }

 private:
  static void clear() {
    for (const char* name : kNames) unsetenv(name);
  }
};

TEST(LocalRank, IsThatOfTheLauncher) {
  {
    const Variables none(Values{});
    EXPECT_EQ(local_rank(), 0);
  }
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK", "SLURM_LOCALID"}) {
    const Variables one(Values{{name, "3"}});
    EXPECT_EQ(local_rank(), 3) << name;
  }
  const Variables two(Values{{"LOCAL_RANK", "2"}, {"SLURM_LOCALID", "0"}});
  EXPECT_EQ(local_rank(), 2);
}

// By the launcher that started the process itself.
TEST(LocalRank, OfTorchrunThatMpirunHasStarted) {
  const Variables three(
      {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"LOCAL_RANK", "3"}, {"TORCHELASTIC_RUN_ID", "run"}});
  EXPECT_EQ(local_rank(), 3);
}

TEST(LocalRank, IsANumber) {
  for (const char* value : {"", "-1", "two", "1 ", "1.0", "99999999999"}) {
    const Variables wrong(Values{{"LOCAL_RANK", value}});
    EXPECT_THAT(message_of<ArgumentError>([] { local_rank(); }),
                HasSubstr(concat("[distributed] LOCAL_RANK is '", value, "'")));
  }
}

const Values kOneOfThree = {
    {"MASTER_ADDR", "a.host"}, {"MASTER_PORT", "29500"}, {"RANK", "2"}, {"WORLD_SIZE", "3"}};

Values with(Values values, const std::string& name, const std::string& value) {
  values[name] = value;
  return values;
}

TEST(LaunchedByVariables, IsReadFromAll) {
  const Variables variables(kOneOfThree);
  const std::optional<Launch> launch = launched_by_variables();
  ASSERT_TRUE(launch.has_value());
  EXPECT_EQ(launch->rank, 2);
  EXPECT_EQ(launch->size, 3);
  EXPECT_EQ(launch->address, "a.host");
  EXPECT_EQ(launch->port, 29500);
  EXPECT_FALSE(launch->port_is_taken);
  EXPECT_EQ(launch->run, "");
}

TEST(LaunchedByVariables, TorchrunKeepsThePort) {
  Values values = with(kOneOfThree, "TORCHELASTIC_RUN_ID", "a_run");
  values["TORCHELASTIC_RESTART_COUNT"] = "1";
  values["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  {
    const Variables variables(values);
    EXPECT_TRUE(launched_by_variables()->port_is_taken);
    EXPECT_EQ(launched_by_variables()->run, "a_run") << "whatever the restart";
  }
  const Variables variables(with(values, "TORCHELASTIC_USE_AGENT_STORE", "False"));
  EXPECT_FALSE(launched_by_variables()->port_is_taken);
}

TEST(LaunchedByVariables, OneProcessNeedsNoOther) {
  {
    const Variables none(Values{});
    EXPECT_FALSE(launched_by_variables().has_value());
  }
  const Variables one(Values{{"WORLD_SIZE", "1"}, {"RANK", "0"}});
  EXPECT_EQ(launched_by_variables()->size, 1);
  EXPECT_EQ(connect()->size(), 1);
}

std::string error_with(const Values& values) {
  const Variables variables(values);
  return message_of<ArgumentError>([] { launched_by_variables(); });
}

TEST(LaunchedByVariables, WhatIsMissingIsNamed) {
  for (const auto& [name, value] : kOneOfThree) {
    Values values = kOneOfThree;
    values.erase(name);
    EXPECT_THAT(error_with(values), HasSubstr(concat(" is set, but not ", name, ". Set all of")));
    EXPECT_THAT(error_with({{name, value}}),
                HasSubstr(concat("find each other, ", name, " is set, but not ")));
  }
  EXPECT_THAT(error_with(with(kOneOfThree, "MASTER_ADDR", "")), HasSubstr("but not MASTER_ADDR."));
}

TEST(LaunchedByVariables, WrongValuesAreNamed) {
  EXPECT_THAT(error_with(with(kOneOfThree, "RANK", "3")),
              HasSubstr("RANK is 3 and WORLD_SIZE 3. Processes are numbered from 0"));
  EXPECT_THAT(error_with(with(kOneOfThree, "RANK", "-1")), HasSubstr("RANK is '-1'. It must be"));
  EXPECT_THAT(error_with(with(kOneOfThree, "WORLD_SIZE", "0")),
              HasSubstr("WORLD_SIZE is 0. It must be from 1 to 256"));
  EXPECT_THAT(error_with(with(kOneOfThree, "WORLD_SIZE", "many")),
              HasSubstr("WORLD_SIZE is 'many'. It must be"));
  EXPECT_THAT(error_with(with(kOneOfThree, "MASTER_PORT", "65536")),
              HasSubstr("MASTER_PORT is 65536. It must be from 1 to 65535"));
  EXPECT_THAT(error_with(with(kOneOfThree, "MASTER_PORT", "http")),
              HasSubstr("MASTER_PORT is 'http'. It must be"));
}

TEST(LaunchedByMpi, IsCountedByItsLauncher) {
  {
    const Variables none(Values{});
    EXPECT_EQ(launched_by_mpi(), 1);
  }
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const Variables variables(with(kOneOfThree, name, "4"));
    EXPECT_EQ(launched_by_mpi(), 4) << name;
  }
  const Variables slurm(Values{{"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_EQ(launched_by_mpi(), 4);
}

// The launcher that started the process itself counts, not that of the launcher.
TEST(LaunchedByMpi, IsNoneBeneathAnotherLauncher) {
  {
    const Variables script(with(kOneOfThree, "SLURM_STEP_NUM_TASKS", "2"));
    EXPECT_EQ(launched_by_mpi(), 1);
  }
  Values values = with(kOneOfThree, "OMPI_COMM_WORLD_SIZE", "2");
  const Variables torchrun(with(values, "TORCHELASTIC_RUN_ID", "run"));
  EXPECT_EQ(launched_by_mpi(), 1);
}

TEST(WatchSeconds, AreLimited) {
  {
    const Variables none(Values{});
    EXPECT_EQ(watch_seconds(), 15);
  }
  {
    const Variables some(Values{{"MEZZO_WATCH_SECONDS", "60"}});
    EXPECT_EQ(watch_seconds(), 60);
  }
  for (const char* value : {"2", "86401"}) {
    const Variables wrong(Values{{"MEZZO_WATCH_SECONDS", value}});
    EXPECT_THAT(
        message_of<ArgumentError>([] { watch_seconds(); }),
        HasSubstr(concat("MEZZO_WATCH_SECONDS is ", value, ". It must be from 3 to 86400")));
  }
}

}  // namespace
}  // namespace mezzo::distributed

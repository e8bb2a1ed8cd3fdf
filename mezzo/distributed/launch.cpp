#include "mezzo/distributed/launch.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "mezzo/core/error.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::distributed {
namespace {

constexpr const char* kLaunchOp = "distributed";
constexpr int kLargestPort = 65535;
// Each process keeps a connection to each other one, and files that are open are limited.
constexpr int kMostProcesses = 256;

// Empty if the variable is not set.
std::string text_of_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_started_by_torchrun() { return std::getenv("TORCHELASTIC_RUN_ID") != nullptr; }

void check_all_are_set() {
  std::string set;
  std::string missing;
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}) {
    std::string& names = text_of_variable(name).empty() ? missing : set;
    names += concat(names.empty() ? "" : ", ", name);
  }
  check_arg(missing.empty(), kLaunchOp, "of what processes need to find each other, ", set,
            " is set, but not ", missing,
            ". Set all of MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE in every process, or none "
            "to train in one process");
}

// What a number must be that is set.
int number_between(const char* name, int least, int most) {
  const int value = launch_number({name}).value().value;
  check_arg(value >= least && value <= most, kLaunchOp, name, " is ", value, ". It must be from ",
            least, " to ", most);
  return value;
}

}  // namespace

std::optional<LaunchNumber> launch_number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    const std::string_view text(value);
    LaunchNumber number = {.name = name};
    const auto result = std::from_chars(text.data(), text.data() + text.size(), number.value);
    const bool is_whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
    check_arg(is_whole && number.value >= 0, kLaunchOp, name, " is '", text,
              "'. It must be a whole number from 0, as launchers set it");
    return number;
  }
  return std::nullopt;
}

int launched_by_mpi() {
  // Open MPI's mpirun, and those of MPICH and Intel.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (is_started_by_torchrun()) break;
    if (const char* count = std::getenv(name); count != nullptr) return std::atoi(count);
  }
  // Slurm's srun sets it for single processes, too, and often starts torchrun or a script.
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  const bool has_own_numbers =
      std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") != nullptr;
  return tasks != nullptr && !has_own_numbers ? std::atoi(tasks) : 1;
}

std::optional<Launch> launched_by_variables() {
  const auto size = launch_number({"WORLD_SIZE"});
  if (size.has_value() && size->value == 1 &&
      launch_number({"RANK"}).value_or(LaunchNumber()).value == 0) {
    return Launch();
  }
  bool any_is_set = false;
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}) {
    any_is_set = any_is_set || std::getenv(name) != nullptr;
  }
  if (!any_is_set) return std::nullopt;
  check_all_are_set();
  Launch launch;
  launch.size = number_between("WORLD_SIZE", 1, kMostProcesses);
  launch.rank = launch_number({"RANK"}).value().value;
  check_arg(launch.rank < launch.size, kLaunchOp, "RANK is ", launch.rank, " and WORLD_SIZE ",
            launch.size, ". Processes are numbered from 0, so RANK must be less than WORLD_SIZE");
  launch.address = text_of_variable("MASTER_ADDR");
  launch.port = number_between("MASTER_PORT", 1, kLargestPort);
  launch.port_is_taken = text_of_variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  // Not with the number of the restart: the agents of several hosts may count differently.
  launch.run = text_of_variable("TORCHELASTIC_RUN_ID");
  return launch;
}

int watch_seconds() {
  if (std::getenv("MEZZO_WATCH_SECONDS") == nullptr) return 15;
  return number_between("MEZZO_WATCH_SECONDS", 3, 24 * 60 * 60);
}

// MPI's launchers come first, unless one has started torchrun, and Slurm last, because it may have
// started the other launcher.
int local_rank() {
  if (is_started_by_torchrun() && std::getenv("LOCAL_RANK") != nullptr) {
    return launch_number({"LOCAL_RANK"}).value().value;
  }
  const auto number = launch_number(
      {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK", "SLURM_LOCALID"});
  return number.has_value() ? number->value : 0;
}

}  // namespace mezzo::distributed

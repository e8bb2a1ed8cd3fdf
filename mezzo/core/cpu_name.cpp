// What a processor is called. Linux gives x86's by name; of Arm's it gives two numbers, those of
// the maker and of the core, per processor.
#include <fstream>
#include <istream>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/cpu.h"
#include "mezzo/core/error.h"

namespace mezzo {
namespace {

// A core by its "CPU implementer" and "CPU part", as Linux writes them.
struct Core {
  std::string maker, part;
  bool operator==(const Core&) const = default;
};

struct KnownCore {
  std::string_view maker, part, name;
};

// Those that are or were in servers, laptops and small boards. Amazon's Graviton 2, 3 and 4 are
// Neoverse N1, V1 and V2, Google's Axion and NVIDIA's Grace Neoverse V2, Ampere's Altra Neoverse
// N1.
constexpr KnownCore kKnownCores[] = {
    {"0x41", "0xd03", "Cortex-A53"},   {"0x41", "0xd04", "Cortex-A35"},
    {"0x41", "0xd05", "Cortex-A55"},   {"0x41", "0xd07", "Cortex-A57"},
    {"0x41", "0xd08", "Cortex-A72"},   {"0x41", "0xd09", "Cortex-A73"},
    {"0x41", "0xd0a", "Cortex-A75"},   {"0x41", "0xd0b", "Cortex-A76"},
    {"0x41", "0xd0c", "Neoverse N1"},  {"0x41", "0xd0d", "Cortex-A77"},
    {"0x41", "0xd40", "Neoverse V1"},  {"0x41", "0xd41", "Cortex-A78"},
    {"0x41", "0xd42", "Cortex-A78AE"}, {"0x41", "0xd44", "Cortex-X1"},
    {"0x41", "0xd46", "Cortex-A510"},  {"0x41", "0xd47", "Cortex-A710"},
    {"0x41", "0xd48", "Cortex-X2"},    {"0x41", "0xd49", "Neoverse N2"},
    {"0x41", "0xd4a", "Neoverse E1"},  {"0x41", "0xd4b", "Cortex-A78C"},
    {"0x41", "0xd4d", "Cortex-A715"},  {"0x41", "0xd4e", "Cortex-X3"},
    {"0x41", "0xd4f", "Neoverse V2"},  {"0x41", "0xd80", "Cortex-A520"},
    {"0x41", "0xd81", "Cortex-A720"},  {"0x41", "0xd82", "Cortex-X4"},
    {"0x41", "0xd84", "Neoverse V3"},  {"0x41", "0xd85", "Cortex-X925"},
    {"0x41", "0xd87", "Cortex-A725"},  {"0x41", "0xd8e", "Neoverse N3"},
    {"0x43", "0x0a1", "ThunderX"},     {"0x43", "0x0af", "ThunderX2"},
    {"0x46", "0x001", "A64FX"},        {"0x48", "0xd01", "Kunpeng 920"},
    {"0x4e", "0x004", "Carmel"},       {"0x51", "0x001", "Oryon"},
    {"0x51", "0xc00", "Falkor"},       {"0x61", "0x022", "Apple M1, efficient"},
    {"0x61", "0x023", "Apple M1"},     {"0x61", "0x024", "Apple M1 Pro, efficient"},
    {"0x61", "0x025", "Apple M1 Pro"}, {"0x61", "0x028", "Apple M1 Max, efficient"},
    {"0x61", "0x029", "Apple M1 Max"}, {"0x61", "0x032", "Apple M2, efficient"},
    {"0x61", "0x033", "Apple M2"},     {"0x6d", "0xd49", "Azure Cobalt 100"},
    {"0xc0", "0xac3", "AmpereOne"},    {"0xc0", "0xac4", "AmpereOne"},
};

std::string name_of(const Core& core) {
  for (const KnownCore& known : kKnownCores) {
    if (core.maker == known.maker && core.part == known.part) return std::string(known.name);
  }
  return concat("Arm implementer ", core.maker, ", part ", core.part);
}

// A line's text after its colon, if the line begins with that name.
std::string_view value_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) return {};
  const std::size_t colon = line.find(": ");
  return colon == std::string_view::npos ? std::string_view() : line.substr(colon + 2);
}

// Cores of several kinds as "4 x Cortex-A76, 4 x Cortex-A55", those that come first first.
std::string names_of(const std::vector<Core>& cores) {
  std::vector<std::pair<Core, int>> kinds;
  for (const Core& core : cores) {
    auto kind = kinds.begin();
    while (kind != kinds.end() && kind->first != core) ++kind;
    if (kind == kinds.end()) kind = kinds.insert(kind, {core, 0});
    ++kind->second;
  }
  if (kinds.size() == 1) return name_of(kinds[0].first);
  std::string names;
  for (const auto& [core, count] : kinds) {
    names += concat(names.empty() ? "" : ", ", count, " x ", name_of(core));
  }
  return names;
}

}  // namespace

std::string cpu_name_in(std::istream& cpuinfo) {
  std::string model;
  std::string maker;
  std::vector<Core> cores;
  for (std::string line; std::getline(cpuinfo, line);) {
    if (model.empty()) model = value_of(line, "model name");
    if (line.starts_with("CPU implementer")) maker = value_of(line, "CPU implementer");
    if (line.starts_with("CPU part"))
      cores.push_back({maker, std::string(value_of(line, "CPU part"))});
  }
  // On Arm, a "model name" is that of the architecture.
  if (!cores.empty()) return names_of(cores);
  return model.empty() ? "unknown" : model;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  return cpu_name_in(file);
}

}  // namespace mezzo

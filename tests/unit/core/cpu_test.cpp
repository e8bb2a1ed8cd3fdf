// What the processor is called, and what it can do.
#include "mezzo/core/cpu.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "mezzo/core/error.h"

namespace mezzo {
namespace {

std::string name_in(const std::string& cpuinfo) {
  std::istringstream stream(cpuinfo);
  return cpu_name_in(stream);
}

// One processor as Linux describes Arm's.
std::string arm_processor(int number, const std::string& maker, const std::string& part) {
  return concat(
      "processor\t: ", number,
      "\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes\nCPU implementer\t: ", maker,
      "\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: ", part, "\nCPU revision\t: 1\n\n");
}

TEST(CpuName, IsTheModelsNameOnX86) {
  EXPECT_EQ(name_in("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7B13\n"
                    "stepping\t: 0\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 7B13\n"),
            "AMD EPYC 7B13");
}

TEST(CpuName, IsTheCoresNameOnArm) {
  EXPECT_EQ(name_in(arm_processor(0, "0x41", "0xd0c") + arm_processor(1, "0x41", "0xd0c")),
            "Neoverse N1");
  EXPECT_EQ(name_in(arm_processor(0, "0x41", "0xd4f")), "Neoverse V2");
  EXPECT_EQ(name_in(arm_processor(0, "0x61", "0x023")), "Apple M1");
  EXPECT_EQ(name_in(arm_processor(0, "0xc0", "0xac3")), "AmpereOne");
  // What a maker's own number means depends on the maker.
  EXPECT_EQ(name_in(arm_processor(0, "0x6d", "0xd49")), "Azure Cobalt 100");
  EXPECT_EQ(name_in(arm_processor(0, "0x41", "0xd49")), "Neoverse N2");
}

// Kernels for programs of 32 bits give the architecture's name as the model's.
TEST(CpuName, OfAnArmCoreDoesNotComeFromTheModel) {
  EXPECT_EQ(
      name_in("model name\t: ARMv8 Processor rev 3 (v8l)\n" + arm_processor(0, "0x41", "0xd08")),
      "Cortex-A72");
}

TEST(CpuName, CountsCoresOfSeveralKinds) {
  std::string text;
  for (int i = 0; i < 6; ++i) text += arm_processor(i, "0x41", i < 4 ? "0xd05" : "0xd0b");
  EXPECT_EQ(name_in(text), "4 x Cortex-A55, 2 x Cortex-A76");
}

TEST(CpuName, GivesTheNumbersOfACoreThatIsNotKnown) {
  EXPECT_EQ(name_in(arm_processor(0, "0x41", "0xfff")), "Arm implementer 0x41, part 0xfff");
}

TEST(CpuName, IsUnknownWhereTheSystemSaysNothing) {
  EXPECT_EQ(name_in(""), "unknown");
  EXPECT_EQ(name_in("processor\t: 0\nhart\t: 0\nisa\t: rv64imafdc\nmodel name\n"), "unknown");
}

// What is said of one instruction set agrees with what is said of all.
TEST(CpuFeatures, AreWithinTheWidestThatIsAllowed) {
  const CpuFeatures& cpu = cpu_features();
  EXPECT_TRUE(cpu.avx2 || !cpu.avx512);
  EXPECT_TRUE(cpu.avx512 || !cpu.avx512_bf16);
  EXPECT_TRUE(cpu.neon || !cpu.neon_bf16);
  EXPECT_EQ(has_vectors(), max_isa() >= Isa::kNeon && (cpu.avx2 || cpu.neon));
  EXPECT_EQ(vector_lanes(), cpu.avx512 ? 16 : cpu.avx2 ? 8 : 4);
  EXPECT_TRUE(has_bf16_dot() || !has_fast_bf16_dot());
  EXPECT_TRUE(max_isa() != Isa::kBaseline || !has_vectors());
  EXPECT_TRUE(max_isa() == Isa::kAll || !has_fast_bf16());
}

#if defined(__aarch64__)
// The bits are those that Linux writes as words into /proc/cpuinfo.
TEST(CpuFeatures, AreThoseThatLinuxNames) {
  if (max_isa() < Isa::kAll) GTEST_SKIP() << "MEZZO_MAX_ISA is set";
  std::ifstream file("/proc/cpuinfo");
  std::string features;
  for (std::string line; features.empty() && std::getline(file, line);) {
    if (line.starts_with("Features")) features = line + " ";
  }
  if (features.empty()) GTEST_SKIP() << "no Features in /proc/cpuinfo";
  const CpuFeatures& cpu = cpu_features();
  const auto names = [&](const char* word) {
    return features.find(concat(" ", word, " ")) != std::string::npos;
  };
  EXPECT_EQ(cpu.neon_fp16, names("asimdhp")) << features;
  EXPECT_EQ(cpu.neon_bf16, names("bf16")) << features;
  EXPECT_EQ(cpu.i8mm, names("i8mm")) << features;
  EXPECT_EQ(cpu.sve, names("sve")) << features;
}
#endif

}  // namespace
}  // namespace mezzo

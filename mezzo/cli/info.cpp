// mezzo info: shows what this machine offers for mixed precision.
#include "mezzo/cli/command.h"
#include "mezzo/cli/print.h"
#include "mezzo/core/cpu.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"
#include "mezzo/ops/backend_info.h"
#include "mezzo/ops/tf32.h"
#include "mezzo/train/profile.h"

namespace mezzo::cli {
namespace {

const char* yes_no(bool value) { return value ? "yes" : "no"; }

// Measures rates; a data sheet would give those of a GPU's highest clock.
void print_rates(Device card) {
  constexpr double kTera = 1e12;
  constexpr double kGiga = 1e9;
  const bool allows_tf32 = is_tf32_allowed();
  allow_tf32(true);
  const double tf32 = train::measure_machine_rates(card).flops_f32;
  allow_tf32(false);
  const train::MachineRates rates = train::measure_machine_rates(card);
  allow_tf32(allows_tf32);
  write_out(
      "          matrix products in f32 {:.0f}, tf32 {:.0f}, bf16 {:.0f}, f16 {:.0f} TFLOP/s; "
      "copies {:.0f} GB/s\n",
      rates.flops_f32 / kTera, tf32 / kTera, rates.flops_bf16 / kTera,
      rates.flops(DType::kF16) / kTera, rates.bytes / kGiga);
}

void print_cards() {
  DeviceBackend* backend = find_device_backend(DeviceType::kCuda);
  if (backend == nullptr) {
    write_out("cuda      not in this build\n");
  } else if (backend->count() == 0) {
    write_out("cuda      built in, but: {}\n", backend->why_none());
  }
  for (int i = 0; backend != nullptr && i < backend->count(); ++i) {
    const Device device{DeviceType::kCuda, static_cast<std::int8_t>(i)};
    write_out("cuda:{}    {}\n", i, backend->describe(device));
    try {
      print_rates(device);
    } catch (const Error& error) {  // for example no free memory; the rest is still printed
      write_out("          no rates: {}\n", error.what());
    }
  }
}

std::string features_text() {
  const CpuFeatures& cpu = cpu_features();
#if defined(__aarch64__)
  return fmt::format("NEON {}, FP16 {}, BF16 {}, I8MM {}, SVE {}", yes_no(cpu.neon),
                     yes_no(cpu.neon_fp16), yes_no(cpu.neon_bf16), yes_no(cpu.i8mm),
                     yes_no(cpu.sve));
#else
  return fmt::format("AVX2 {}, F16C {}, AVX-512 {}, AVX512-BF16 {}, AVX512-FP16 {}, AMX-BF16 {}",
                     yes_no(cpu.avx2), yes_no(cpu.f16c), yes_no(cpu.avx512),
                     yes_no(cpu.avx512_bf16), yes_no(cpu.avx512_fp16), yes_no(cpu.amx_bf16));
#endif
}

void run_info() {
  const BackendInfo backend = backend_info();
  write_out("mezzo     {}\n", MEZZO_VERSION);
  write_out("cpu       {}, {} threads\n", cpu_name(), num_threads());
  write_out("features  {}\n", features_text());
  write_out("kernels   oneDNN {} using {}, vector loops for {}\n", backend.onednn_version,
            backend.onednn_isa, backend.vector_target);
  write_out("bf16      {}\n", has_fast_bf16()
                                  ? "computed with bf16 dot products, sums in f32"
                                  : "no fast bf16 dot product on this CPU: saves memory, not time");
  print_cards();
  write_out("f16       stored in 16 bits, computed in f32: saves memory, not time\n");
}

}  // namespace

void add_info(CLI::App& app) {
  app.add_subcommand("info", "CPU features and libraries that matter for precision")
      ->callback(run_info);
}

}  // namespace mezzo::cli

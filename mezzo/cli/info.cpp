// mezzo info: what this machine offers for mixed precision.
#include <fmt/format.h>

#include "mezzo/cli/command.h"
#include "mezzo/core/cpu.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/parallel.h"
#include "mezzo/ops/backend_info.h"

namespace mezzo::cli {
namespace {

const char* yes_no(bool value) { return value ? "yes" : "no"; }

void print_cards() {
  DeviceBackend* backend = find_device_backend(DeviceType::kCuda);
  if (backend == nullptr) {
    fmt::print("cuda      not in this build\n");
  } else if (backend->count() == 0) {
    fmt::print("cuda      built in, but there is no card, or no driver\n");
  }
  for (int i = 0; backend != nullptr && i < backend->count(); ++i) {
    const Device device{DeviceType::kCuda, static_cast<std::int8_t>(i)};
    fmt::print("cuda:{}    {}\n", i, backend->describe(device));
  }
}

void run_info() {
  const CpuFeatures& cpu = cpu_features();
  const BackendInfo backend = backend_info();
  fmt::print("mezzo     {}\n", MEZZO_VERSION);
  fmt::print("cpu       {}, {} threads\n", cpu_name(), num_threads());
  fmt::print(
      "features  AVX2 {}, F16C {}, AVX-512 {}, AVX512-BF16 {}, AVX512-FP16 {}, AMX-BF16 {}\n",
      yes_no(cpu.avx2), yes_no(cpu.f16c), yes_no(cpu.avx512), yes_no(cpu.avx512_bf16),
      yes_no(cpu.avx512_fp16), yes_no(cpu.amx_bf16));
  fmt::print("kernels   oneDNN {} using {}, vector loops for {}\n", backend.onednn_version,
             backend.onednn_isa, backend.vector_target);
  fmt::print("bf16      {}\n", cpu.avx512_bf16
                                   ? "computed with bf16 dot products, sums in f32"
                                   : "no bf16 dot product here: saves memory, not time");
  print_cards();
  fmt::print("f16       stored in 16 bits, computed in f32: saves memory, not time\n");
}

}  // namespace

void add_info(CLI::App& app) {
  app.add_subcommand("info", "CPU features and libraries that matter for precision")
      ->callback(run_info);
}

}  // namespace mezzo::cli

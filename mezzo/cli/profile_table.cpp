#include "mezzo/cli/profile_table.h"

#include <fmt/format.h>

#include "mezzo/cli/print.h"
#include "mezzo/cli/table.h"

namespace mezzo::cli {
namespace {

constexpr double kGiga = 1e9;

// `12.3`, or `-` for 0.
std::string number_or_dash(double value, int digits) {
  return value > 0 ? fmt::format("{:.{}f}", value, digits) : "-";
}

// `total_ms`: the time of which the row has a share.
std::vector<std::string> cells_of(const train::ProfileRow& row, std::int64_t all_steps,
                                  double total_ms, const train::MachineRates& rates) {
  const auto steps = static_cast<double>(all_steps);
  const double seconds = row.ms / 1000;
  return {amp::name_of(row.phase),
          row.op,
          name_of(row.dtype),
          row.kernel,
          fmt::format("{:.0f}", static_cast<double>(row.calls) / steps),
          fmt::format("{:.3f}", row.ms / steps),
          fmt::format("{:.1f} %", 100 * row.ms / total_ms),
          fmt::format("{:.1f}", row.bytes / steps / 1e6),
          fmt::format("{:.1f}", row.bytes / seconds / kGiga),
          number_or_dash(row.flops / seconds / kGiga, 0),
          fmt::format("{:.0f} %", 100 * row.roofline(rates))};
}

}  // namespace

void print_profile(const train::Profile& profile, const train::RunResult& result,
                   const train::MachineRates& rates) {
  std::vector<std::vector<std::string>> rows{{"phase", "op", "dtype", "kernel", "calls", "ms",
                                              "share", "MB", "GB/s", "GFLOP/s", "roofline"}};
  const std::vector<train::ProfileRow> profiled = profile.rows();
  double in_kernels_ms = 0;
  for (const train::ProfileRow& row : profiled) in_kernels_ms += row.ms;
  // Kernels of a device are timed one by one and waited for, so the time between them means
  // nothing.
  const bool on_cpu = rates.device.is_cpu();
  const double total_ms = on_cpu ? result.total_ms : in_kernels_ms;
  for (const train::ProfileRow& row : profiled) {
    rows.push_back(cells_of(row, result.steps, total_ms, rates));
  }
  write_out("\n{}", format_table(rows));
  const auto steps = static_cast<double>(result.steps);
  if (on_cpu) {
    const double between_ms = total_ms - in_kernels_ms;
    write_out("\nper step; {:.3f} ms ({:.1f} %) between kernels: dispatch, allocation, the tape\n",
              between_ms / steps, 100 * between_ms / total_ms);
  } else {
    write_out("\nper step; {:.3f} ms in kernels, each timed alone on the device\n",
              in_kernels_ms / steps);
  }
  write_out(
      "roofline: {:.0f} GFLOP/s in f32, {:.0f} in bf16, {:.0f} in f16 ({} products), "
      "{:.1f} GB/s (copies)\n",
      rates.flops_f32 / kGiga, rates.flops_bf16 / kGiga, rates.flops(DType::kF16) / kGiga,
      on_cpu ? "1024 x 1024" : "8192 x 8192", rates.bytes / kGiga);
}

void write_profile(JsonLines& json, const train::Profile& profile, const train::RunResult& result,
                   const train::MachineRates& rates) {
  const auto steps = static_cast<double>(result.steps);
  json.write({{"event", "machine"},
              {"flops_f32", rates.flops_f32},
              {"flops_bf16", rates.flops_bf16},
              {"flops_f16", rates.flops(DType::kF16)},
              {"bytes_per_s", rates.bytes}});
  for (const train::ProfileRow& row : profile.rows()) {
    json.write({{"event", "profile"},
                {"phase", amp::name_of(row.phase)},
                {"op", row.op},
                {"dtype", name_of(row.dtype)},
                {"kernel", row.kernel},
                {"calls", static_cast<double>(row.calls) / steps},
                {"ms", row.ms / steps},
                {"bytes", row.bytes / steps},
                {"flops", row.flops / steps},
                {"roofline", row.roofline(rates)}});
  }
}

}  // namespace mezzo::cli

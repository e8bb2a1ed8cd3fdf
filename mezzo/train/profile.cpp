#include "mezzo/train/profile.h"

#include <algorithm>

namespace mezzo::train {

double ProfileRow::roofline(const MachineRates& rates) const {
  const double least_s = std::max(flops / rates.flops(dtype), bytes / rates.bytes);
  return ms > 0 ? 1000 * least_s / ms : 0;
}

void Profile::on_run(const KernelWork& work, double ms) {
  ProfileRow& row = rows_[{phase_, work.op, work.dtype, work.kernel}];
  row.phase = phase_;
  row.op = work.op;
  row.dtype = work.dtype;
  row.kernel = work.kernel;
  ++row.calls;
  row.ms += ms;
  row.flops += work.flops;
  row.bytes += work.bytes;
}

std::vector<ProfileRow> Profile::rows() const {
  std::vector<ProfileRow> rows;
  rows.reserve(rows_.size());
  for (const auto& [key, row] : rows_) rows.push_back(row);
  std::ranges::stable_sort(rows, [](const ProfileRow& a, const ProfileRow& b) {
    return a.phase != b.phase ? a.phase < b.phase : a.ms > b.ms;
  });
  return rows;
}

}  // namespace mezzo::train

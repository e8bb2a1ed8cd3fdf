#include "mezzo/train/profile.h"

#include <algorithm>

namespace mezzo::train {

double ProfileRow::roofline(const MachineRates& rates) const {
  const double least_s = std::max(flops / rates.flops(dtype), bytes / rates.bytes);
  return ms > 0 ? 1000 * least_s / ms : 0;
}

ProfileRow& Profile::row_of(const KernelWork& work) {
  const auto found = std::ranges::find_if(rows_, [&](const ProfileRow& row) {
    return row.phase == phase_ && row.dtype == work.dtype && row.op == work.op &&
           row.kernel == work.kernel;
  });
  if (found != rows_.end()) return *found;
  return rows_.emplace_back(
      ProfileRow{.phase = phase_, .op = work.op, .dtype = work.dtype, .kernel = work.kernel});
}

void Profile::on_run(const KernelWork& work, double ms) {
  ProfileRow& row = row_of(work);
  ++row.calls;
  row.ms += ms;
  row.flops += work.flops;
  row.bytes += work.bytes;
}

std::vector<ProfileRow> Profile::rows() const {
  std::vector<ProfileRow> rows = rows_;
  std::ranges::stable_sort(rows, [](const ProfileRow& a, const ProfileRow& b) {
    return a.phase != b.phase ? a.phase < b.phase : a.ms > b.ms;
  });
  return rows;
}

}  // namespace mezzo::train

#include "mezzo/ops/norm_statistics.h"

#include "mezzo/ops/dispatch.h"

namespace mezzo {
namespace {

thread_local NormStatistics* wanted = nullptr;
thread_local const NormStatistics* given = nullptr;

}  // namespace

FindStatistics::FindStatistics(NormStatistics* statistics)
    : previous_(std::exchange(wanted, statistics)) {}
FindStatistics::~FindStatistics() { wanted = previous_; }

NormStatistics* wanted_statistics() {
  return wanted != nullptr && !is_kernel_disabled(Switch::kNormAhead) ? wanted : nullptr;
}

GiveStatistics::GiveStatistics(const NormStatistics& statistics)
    : previous_(std::exchange(given, statistics.mean.defined() ? &statistics : nullptr)) {}
GiveStatistics::~GiveStatistics() { given = previous_; }

const NormStatistics* given_statistics() { return given; }

}  // namespace mezzo

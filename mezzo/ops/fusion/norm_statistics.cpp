#include "mezzo/ops/fusion/norm_statistics.h"

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo {
namespace {

thread_local NormStatistics* asked_for = nullptr;
thread_local const NormStatistics* given = nullptr;

}  // namespace

Tensor deviation_by_ops(const Tensor& var, double eps) {
  const Tensor sum = var + eps;
  const Tensor constant = sum.detach();
  return sqrt(sum) + (constant - constant);
}

FindStatistics::FindStatistics(NormStatistics* statistics) : scope_(asked_for, statistics) {}

NormStatistics* wanted_statistics() {
  return asked_for != nullptr && !is_kernel_disabled(Switch::kNormAhead) ? asked_for : nullptr;
}

GiveStatistics::GiveStatistics(const NormStatistics& statistics)
    : scope_(given, statistics.mean.defined() ? &statistics : nullptr) {}

const NormStatistics* given_statistics() { return given; }

}  // namespace mezzo

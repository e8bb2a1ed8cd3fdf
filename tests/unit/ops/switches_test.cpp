// Tests the switches for features other than operations' kernels.
#include <algorithm>
#include <string_view>

#include <gtest/gtest.h>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/registry.h"

namespace mezzo {
namespace {

bool lists(const KernelList* list, std::string_view name) {
  return list != nullptr && std::ranges::any_of(list->entries(), [&](const Kernel& kernel) {
           return name == kernel.name;
         });
}

// With equal names, disabling one would also disable the other.
TEST(Switches, HaveNamesThatNoKernelHas) {
  for (const std::string_view name : Switch::kAll) {
    for (const RegisteredOp& op : registered_ops()) {
      EXPECT_FALSE(lists(op.kernels.cpu, name) || lists(op.kernels.cuda, name)) << name;
    }
  }
}

}  // namespace
}  // namespace mezzo

// NCCL is loaded at its first use, or said to be missing.
#include "mezzo/kernels/cuda/nccl_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"

namespace mezzo::kernels::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(NcclLibrary, IsLoadedWhereItIsInstalled) {
  try {
    EXPECT_STRNE(nccl_library().ncclGetErrorString(ncclInvalidUsage), "");
    EXPECT_EQ(&nccl_library(), &nccl_library());
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(StartsWith("[cuda] NCCL could not be loaded: libnccl.so.2"),
                                    HasSubstr(". Install NCCL 2."), HasSubstr("LD_LIBRARY_PATH")));
  }
}

}  // namespace
}  // namespace mezzo::kernels::cuda

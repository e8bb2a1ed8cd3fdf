// cuBLASLt and cuDNN are loaded at their first use, or said to be missing.
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/kernels/cuda/cublaslt_library.h"
#include "mezzo/kernels/cuda/cudnn_library.h"
#include "tests/unit/message_of.h"

namespace mezzo::kernels::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// Run again with a library that has none of cuBLASLt's functions in its place: see CMakeLists.txt.
bool has_empty_libraries() {
  return std::getenv("MEZZO_EMPTY_LIBRARIES") != nullptr;  // NOLINT(concurrency-mt-unsafe)
}

// True if a library and what it needs is installed here; if not, it is said as it should be.
template <class Load>
bool is_installed(const Load& load) {
  try {
    load();
    return true;
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(),
                AllOf(StartsWith("[cuda] cu"), HasSubstr(" could not be loaded: libcu"),
                      HasSubstr(". Install cu"), HasSubstr("LD_LIBRARY_PATH")));
    return false;
  }
}

TEST(Libraries, CublasLtIsLoadedWhereItIsInstalled) {
  if (has_empty_libraries()) GTEST_SKIP() << "another library has its name";
  if (!is_installed(cublaslt_library)) GTEST_SKIP() << "it is not installed";
  EXPECT_STRNE(cublaslt_library().cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED), "");
}

TEST(Libraries, CudnnIsLoadedWhereItIsInstalled) {
  if (has_empty_libraries()) GTEST_SKIP() << "another library has cuBLASLt's name";
  if (!is_installed(cudnn_library)) GTEST_SKIP() << "it is not installed";
  EXPECT_STRNE(cudnn_library().cudnnGetErrorString(CUDNN_STATUS_BAD_PARAM), "");
}

TEST(Libraries, AllThreadsGetTheSameTable) {
  if (has_empty_libraries()) GTEST_SKIP() << "another library has cuBLASLt's name";
  if (!is_installed(cudnn_library)) GTEST_SKIP() << "it is not installed";
  std::vector<const Cudnn*> found(8);
  std::vector<std::thread> threads;
  for (const Cudnn*& one : found) threads.emplace_back([&one] { one = &cudnn_library(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(found, testing::Each(&cudnn_library()));
}

TEST(Libraries, OneWithoutTheFunctionsIsNamedEveryTime) {
  if (!has_empty_libraries()) GTEST_SKIP() << "the libraries are those of this machine";
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(message_of<DeviceError>([] { cublaslt_library(); }),
                AllOf(StartsWith("[cuda] cuBLASLt is of another version: libcublasLt.so."),
                      HasSubstr(" has no cublasLt"), HasSubstr(". Install cuBLASLt ")));
  }
}

}  // namespace
}  // namespace mezzo::kernels::cuda

#include "mezzo/core/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/tensor.h"
#include "mezzo/graph/program.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using testing::HasSubstr;

TEST(Device, NamesAreReadAndWritten) {
  for (const char* name : {"cpu", "cuda", "cuda:1", "cuda:127"}) {
    const std::optional<Device> device = parse_device(name);
    ASSERT_TRUE(device.has_value()) << name;
    EXPECT_EQ(concat(*device), name);
  }
  EXPECT_EQ(concat(parse_device("cuda:0").value()), "cuda");
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:128", "cuda:1 ", "CPU"}) {
    EXPECT_FALSE(parse_device(name).has_value()) << name;
  }
}

TEST(Device, TheCpuIsAlwaysThere) {
  EXPECT_TRUE(has_device(kCpuDevice));
  synchronize(kCpuDevice);
  const std::int64_t before = memory_stats(kCpuDevice).live_bytes;
  const Tensor x = zeros({16});
  EXPECT_EQ(memory_stats(kCpuDevice).live_bytes, before + 64);
  EXPECT_EQ(x.to(kCpuDevice).impl(), x.impl()) << "nothing is copied";
}

TEST(Device, AreListed) {
  const std::vector<Device> all = devices();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front(), kCpuDevice);
  EXPECT_EQ(all.size() > 1, is_cuda_available());
  for (const Device device : all) EXPECT_TRUE(has_device(device)) << concat(device);
  if (all.size() < 128) {
    const Device next{DeviceType::kCuda, static_cast<std::int8_t>(all.size() - 1)};
    EXPECT_FALSE(has_device(next));
  }
}

TEST(Device, OneThatIsNotThereIsAnError) {
  const Device card{DeviceType::kCuda, 100};  // more than any machine has
  EXPECT_FALSE(has_device(card));
  EXPECT_THAT(message_of<UnsupportedError>([&] { zeros({2}).to(card); }),
              HasSubstr("[device] there is no cuda:100"));
  EXPECT_THROW(empty({2}, DType::kF32, Format::kContiguous, card), UnsupportedError);
}

// A tensor without elements needs no GPU.
TEST(Device, GradientsLieWhereTheirTensorsDo) {
  const Device card{DeviceType::kCuda, 0};
  const Tensor weight = graph::stand_in(graph::ValueSpec::dense({2}, DType::kF32), card);
  EXPECT_EQ(message_of<ArgumentError>([&] { weight.set_grad(zeros({2})); }),
            "[set_grad] the gradient is on cpu, the tensor on cuda. Use to()");
}

}  // namespace
}  // namespace mezzo

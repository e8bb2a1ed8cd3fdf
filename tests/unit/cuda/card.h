// The CUDA device on which tests compute.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/device.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

inline constexpr Device kCard{DeviceType::kCuda, 0};

// Tests that need a CUDA device, and skip themselves without one.
template <class Base = testing::Test>
class OnCard : public Base {
 protected:
  void SetUp() override {
    if (!has_device(kCard)) GTEST_SKIP() << "there is no CUDA card";
  }
};

// The elements, on whichever device they are.
inline std::vector<float> floats(const Tensor& tensor) { return tensor.to_vector<float>(); }

}  // namespace mezzo

// What a pickle says about a tensor: its storage, and which elements of it.
#pragma once

#include <cstdint>
#include <string_view>

#include "mezzo/core/dtype.h"
#include "mezzo/core/shape.h"
#include "mezzo/io/pickle.h"

namespace mezzo::io {

struct PytorchStorage {
  std::string_view key;  // of its entry
  DType dtype = DType::kF32;
  std::int64_t numel = 0;
};

struct PytorchView {
  PytorchStorage storage{};
  Shape shape{};
  // In elements. Of dimensions without a second element, which strides do not matter to, they are
  // 0, so that equal views have equal strides.
  Strides strides{};
  std::int64_t offset = 0;  // in elements

  // The whole storage in its order.
  bool is_whole() const;
};

// The view that a value of the kind kTensor describes. It lies within its storage, and 63 bits hold
// its size in bytes. Throws FileError `[pytorch] SOURCE: tensor 'NAME': ...`.
PytorchView view_of(std::string_view source, std::string_view name, const Pickle& pickle,
                    PickleValue tensor);

}  // namespace mezzo::io

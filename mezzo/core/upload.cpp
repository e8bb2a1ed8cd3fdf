#include "mezzo/core/upload.h"

#include <utility>

namespace mezzo {

Upload::Upload(const Tensor& source, Device device) {
  const bool is_upload = source.device().is_cpu() && !device.is_cpu();
  if (!is_upload || !source.is_one_block()) {
    copy_ = source.to(device);
    return;
  }
  copy_ = empty(source.shape(), source.dtype(), source.format(), device);
  if (copy_.bytes() == 0) return;
  under_way_ = backend_of(device).begin_copy_from_host(copy_.address(), source.address(),
                                                       source.bytes(), device);
}

Tensor Upload::take() {
  if (under_way_ != nullptr) under_way_->join();
  under_way_ = nullptr;
  return std::move(copy_);
}

}  // namespace mezzo

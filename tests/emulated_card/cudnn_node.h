// The descriptors of the emulated cuDNN: their attributes, and the checks on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cudnn.h>

#include "tests/emulated_card/elements.h"

namespace mezzo::emulated_card {

// Thrown within a call, which then returns the status.
struct Refusal {
  cudnnStatus_t status;
  std::string why;
};

inline void require(bool is_met, cudnnStatus_t status, const std::string& why) {
  if (!is_met) throw Refusal{status, why};
}

inline Register& cudnn_handles() {
  static auto* all = new Register;
  return *all;
}

inline void require_handle(cudnnHandle_t handle) {
  require(handle != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no handle");
  require(cudnn_handles().has(handle), CUDNN_STATUS_BAD_PARAM, "the handle does not exist");
}

using Type = cudnnBackendDescriptorType_t;
using Name = cudnnBackendAttributeName_t;
using ValueType = cudnnBackendAttributeType_t;

// A descriptor. If another descriptor holds it, it survives its own destruction there.
struct Node {
  struct Values {
    ValueType type{};
    std::int64_t count = 0;
    std::vector<std::byte> bytes;
    std::vector<std::shared_ptr<const Node>> parts;  // for CUDNN_TYPE_BACKEND_DESCRIPTOR
  };

  Type type{};
  bool is_final = false;
  std::map<Name, Values> values;

  template <class T>
  std::vector<T> all(Name name) const {
    const Values& found = values.at(name);
    std::vector<T> numbers(static_cast<std::size_t>(found.count));
    std::memcpy(numbers.data(), found.bytes.data(), found.bytes.size());
    return numbers;
  }
  template <class T>
  T one(Name name) const {
    T value;
    std::memcpy(&value, values.at(name).bytes.data(), sizeof(value));
    return value;
  }
  const Node& part(Name name) const { return *values.at(name).parts.front(); }
};

// The existing descriptors.
class Nodes {
 public:
  void add(const std::shared_ptr<Node>& node) {
    const std::lock_guard lock(mutex_);
    nodes_[node.get()] = node;
  }
  bool remove(const void* raw) {
    const std::lock_guard lock(mutex_);
    return nodes_.erase(raw) > 0;
  }
  std::shared_ptr<Node> find(const void* raw) {
    require(raw != nullptr, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(raw);
    require(found != nodes_.end(), CUDNN_STATUS_BAD_PARAM, "the descriptor does not exist");
    return found->second;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, std::shared_ptr<Node>> nodes_;
};

inline Nodes& nodes() {
  static auto* all = new Nodes;
  return *all;
}

}  // namespace mezzo::emulated_card

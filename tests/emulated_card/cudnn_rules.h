// The attributes that the descriptors of the emulated cuDNN have.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulated_card/cudnn_node.h"

namespace mezzo::emulated_card {

enum class Use : std::uint8_t { kRequired, kOptional, kReadOnly };

// An attribute of a descriptor: the number and type of its values, and what parts must be.
struct Rule {
  Type of;
  Name name;
  ValueType type;
  std::int64_t most = 1;
  Use use = Use::kRequired;
  Type part{};
};

inline constexpr Rule kRules[] = {
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
     CUDNN_DIM_MAX},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, CUDNN_DIM_MAX},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
     Use::kOptional},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_CONV_MODE,
     CUDNN_TYPE_CONVOLUTION_MODE},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64,
     CUDNN_DIM_MAX},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
     CUDNN_DIM_MAX},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64,
     CUDNN_DIM_MAX},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64,
     CUDNN_DIM_MAX},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Use::kRequired, CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Use::kRequired, CUDNN_BACKEND_TENSOR_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Use::kRequired, CUDNN_BACKEND_TENSOR_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 2},  // check_part() checks what the parts are
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Use::kRequired, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_RESULTS,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Use::kReadOnly},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Use::kRequired, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
     CUDNN_NUMERICAL_NOTE_TYPE_COUNT, Use::kReadOnly},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
     CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, Use::kReadOnly},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, Use::kRequired, CUDNN_BACKEND_ENGINE_DESCRIPTOR},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Use::kRequired, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
     CUDNN_TYPE_INT64, 1, Use::kReadOnly},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
     64},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
     CUDNN_TYPE_VOID_PTR, 64},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
     1, Use::kOptional},
};

// The names of the attributes of an operation.
struct Names {
  Type operation;
  Name x, weight, y, window, alpha, beta;
};

inline constexpr Names kNames[] = {
    // in the order of Pass
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

// The names of an operation's attributes, or null for another descriptor.
inline const Names* find_names(Type type) {
  for (const Names& names : kNames) {
    if (names.operation == type) return &names;
  }
  return nullptr;
}

inline const std::vector<Rule>& rules() {
  static const auto* all = [] {
    auto* made = new std::vector<Rule>(std::begin(kRules), std::end(kRules));
    for (const Names& names : kNames) {
      for (const Name tensor : {names.x, names.weight, names.y}) {
        made->push_back({names.operation, tensor, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, Use::kRequired,
                         CUDNN_BACKEND_TENSOR_DESCRIPTOR});
      }
      made->push_back({names.operation, names.window, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                       Use::kRequired, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR});
      made->push_back({names.operation, names.alpha, CUDNN_TYPE_FLOAT});
      made->push_back({names.operation, names.beta, CUDNN_TYPE_FLOAT});
    }
    return made;
  }();
  return *all;
}

inline std::string label(Name name) {
  return "attribute " + std::to_string(static_cast<int>(name));
}

inline const Rule& rule_of(const Node& node, Name name, ValueType type) {
  for (const Rule& rule : rules()) {
    if (rule.of != node.type || rule.name != name) continue;
    require(rule.type == type, CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
            label(name) + " is of another type");
    return rule;
  }
  throw Refusal{CUDNN_STATUS_BAD_PARAM, label(name) + " is not one of descriptor type " +
                                            std::to_string(static_cast<int>(node.type)) +
                                            ", or not emulated"};
}

inline std::size_t size_of(ValueType type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    default: return 4;  // floats and enumerators
  }
}

inline void check_part(const Rule& rule, const Node& part) {
  require(part.is_final, CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
          label(rule.name) + " is not finalized");
  const bool is_operation =
      find_names(part.type) != nullptr || part.type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
  const bool fits =
      rule.name == CUDNN_ATTR_OPERATIONGRAPH_OPS ? is_operation : part.type == rule.part;
  require(fits, CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
          label(rule.name) + " is another kind of descriptor");
}

inline void set(Node& node, const Rule& rule, std::int64_t count, const void* data) {
  require(!node.is_final, CUDNN_STATUS_BAD_PARAM, "set in a finalized descriptor");
  require(rule.use != Use::kReadOnly, CUDNN_STATUS_NOT_SUPPORTED,
          label(rule.name) + " is not for setting");
  require(data != nullptr, CUDNN_STATUS_BAD_PARAM, "no values");
  require(count >= 1 && count <= rule.most, CUDNN_STATUS_BAD_PARAM,
          label(rule.name) + " has not " + std::to_string(count) + " values");
  Node::Values values{rule.type, count, {}, {}};
  values.bytes.resize(static_cast<std::size_t>(count) * size_of(rule.type));
  std::memcpy(values.bytes.data(), data, values.bytes.size());
  if (rule.type == CUDNN_TYPE_HANDLE) {
    require_handle(*static_cast<const cudnnHandle_t*>(data));
  } else if (rule.type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < count; ++i) {
      values.parts.push_back(nodes().find(static_cast<const cudnnBackendDescriptor_t*>(data)[i]));
      check_part(rule, *values.parts.back());
    }
  }
  node.values[rule.name] = std::move(values);
}

// Fills in a descriptor that the caller has created for a result.
inline void put(Node& node, Name name, std::int64_t number) {
  Node::Values values{CUDNN_TYPE_INT64, 1, std::vector<std::byte>(sizeof(number)), {}};
  std::memcpy(values.bytes.data(), &number, sizeof(number));
  node.values[name] = std::move(values);
}

inline void put(Node& node, Name name, std::shared_ptr<const Node> part) {
  node.values[name] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {std::move(part)}};
}

}  // namespace mezzo::emulated_card

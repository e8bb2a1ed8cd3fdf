// Which call, or what from outside of the step, the elements of an operand come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "mezzo/amp/batch.h"
#include "mezzo/core/tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::numbers {

// Where an operand comes from.
enum class Source : std::uint8_t {
  kCall,       // a call of the step
  kParameter,  // a parameter or a buffer of the network, or a copy of one
  kBatch,      // the batch
  kOther,      // a constant, or anything else that existed before the step
};

struct Origin {
  Source source = Source::kOther;
  std::size_t call = 0;    // kCall: the index of the call
  std::size_t output = 0;  // kCall: which of its results
  std::string name{};      // kParameter and kBatch: `fc.weight`, `input 0`

  bool operator==(const Origin&) const = default;
};

// Remembers where elements lie in memory. Memory is used again, so it has to be told of every call,
// in order: a later result replaces an earlier one in the same place.
class OperandSources {
 public:
  // Gives the elements of a tensor that exists before the step a source and a name.
  void name(const Tensor& tensor, Source source, const std::string& name);
  // Names the parameters and buffers of a network, and the tensors of a batch.
  void name_state(const nn::Module& net);
  void name_batch(const Batch& batch);
  void clear();

  Origin of(const Tensor& tensor);
  // The elements of a view come from where those of its input do.
  void add_view(const Tensor& input, const Tensor& view);
  void add_result(const Tensor& result, std::size_t call, std::size_t output);

 private:
  using Place = std::pair<const void*, std::int64_t>;
  static Place place_of(const Tensor& tensor);

  std::map<Place, Origin> results_;
  std::map<const void*, Origin> storages_;  // those that exist before the step
};

// The names that name_batch() gives, each with its tensor: `input 0`, `label 0`.
std::vector<NamedTensor> named_tensors_of(const Batch& batch);

}  // namespace mezzo::numbers

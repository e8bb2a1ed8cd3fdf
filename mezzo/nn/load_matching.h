// Weights of another network, such as a pretrained one with another head: what fits is taken, and
// what becomes of the rest is told.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

// What load_matching() did, by the names of tensors, in the order of the module's or the file's.
struct LoadReport {
  std::vector<std::string> taken{};
  std::vector<std::string> left_out{};    // the caller wanted them as they are
  std::vector<std::string> missing{};     // the module has them, the state has not
  std::vector<std::string> unexpected{};  // the state has them, the module has not
  std::vector<std::string> different{};   // of another shape or kind of dtype: what both are

  bool fits() const { return missing.empty() && unexpected.empty() && different.empty(); }
  // `missing: a, b; unexpected: c; different: fc.weight is ... here but ... there`, the first of
  // each; empty if all fits.
  std::string text() const;
};

// Copies what of `state` has the name, the shape and the kind of dtype of a tensor of the module;
// the other tensors of the module stay as they are. So do all those below the paths `left_out`,
// such as a head that is to be trained from the beginning, also under other names that they have.
// Throws ArgumentError, and changes
// nothing, if a name appears twice, a tensor is undefined, or nothing is taken.
//
//   const nn::LoadReport report = nn::load_matching(net, io::read_safetensors(path).tensors);
LoadReport load_matching(Module& net, std::span<const NamedTensor> state,
                         const std::vector<std::string>& left_out = {});

// The path of the module that has the last parameters, its own or shared ones, which is the head of
// a classifier: `fc`.
// Empty if the module itself has them, or there are none.
std::string head_of(const Module& net);

// Whether load_state() copies the one into the other.
bool can_load(const Tensor& from, const Tensor& to);
// Whether a state without this tensor of the module is whole: nothing is computed with the counter
// of a batch norm, and files from before PyTorch had it are without one.
bool may_be_missing(const NamedTensor& own);
// What `own` is in the module and in the state, where these differ.
std::string difference(const NamedTensor& own, const Tensor& given);
// `; heading: a, b, c`, or nothing if there are no entries. Of many, those that tell which network
// it is: the first.
std::string listed(std::string_view heading, const std::vector<std::string>& entries);

}  // namespace mezzo::nn

// Loading the weights of another network, such as a pretrained one with another head: matching
// tensors are copied, and the others are reported.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/named_tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::nn {

// The result of load_matching(), as names of tensors in the order of the module or of the file.
struct LoadReport {
  std::vector<std::string> taken{};
  std::vector<std::string> left_out{};    // excluded by the caller
  std::vector<std::string> missing{};     // in the module, but not in the state
  std::vector<std::string> unexpected{};  // in the state, but not in the module
  std::vector<std::string> different{};   // another shape or kind of dtype: both descriptions

  bool fits() const { return missing.empty() && unexpected.empty() && different.empty(); }
  // `missing: a, b; unexpected: c; different: fc.weight is ... here but ... there`, with the first
  // of each; empty if everything matches.
  std::string text() const;
};

// Copies the tensors of `state` that match a tensor of the module in name, shape and kind of dtype.
// The module's other tensors stay unchanged, and so do all those below the paths `left_out`, such
// as a head that is to be trained from scratch, even if they have other names, too. Throws
// ArgumentError, and changes nothing, if a name appears twice, a tensor is undefined, or nothing is
// copied.
//
//   const nn::LoadReport report = nn::load_matching(net, io::read_safetensors(path).tensors);
LoadReport load_matching(Module& net, std::span<const NamedTensor> state,
                         const std::vector<std::string>& left_out = {});

// The path of the module that has the last parameters, its own or shared ones, which is the head of
// a classifier: `fc`. Empty if the root itself has them, or if there are none.
std::string head_of(const Module& net);

// Whether load_state() can copy `from` into `to`.
bool can_load(const Tensor& from, const Tensor& to);
// Whether a state without this tensor of the module is still complete. A batch norm's counter may
// be missing: nothing is computed with it, and files from before PyTorch had it lack it.
bool may_be_missing(const NamedTensor& own);
// Describes `own` in the module and in the state, where these differ.
std::string difference(const NamedTensor& own, const Tensor& given);
// `; heading: a, b, c`, or nothing if there are no entries. Of many entries, only the first are
// listed, which tell which network it is.
std::string listed(std::string_view heading, const std::vector<std::string>& entries);

}  // namespace mezzo::nn

// Tied parameters: one tensor that several modules use under names of their own, such as the table
// of an embedding that also multiplies the last layer's input.
//
// Press, Wolf, "Using the Output Embedding to Improve Language Models", 2017.
#pragma once

#include <string_view>

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// From now on the parameter `name` is the tensor of the parameter `with`, with its value; both are
// names relative to `net`, `head.weight`. All other names of the replaced tensor follow. Call it in
// the constructor of a network, or at least before optimizers are made:
//
//   Gpt() { add("wte", wte_), add("lm_head", lm_head_), tie(*this, "lm_head.weight", "wte.weight");
//   }
//
// A tied tensor is one parameter: named_parameters() lists it once, under the name that was
// registered first, and an optimizer, a plan and a gradient know it once. Its gradient is the sum
// over all uses. state() has every name; files store the tensor once, and load_state() takes any of
// the names. to(), half_parameters() and full_parameters() keep it one tensor. A module can be tied
// from the beginning, too: by add_parameter() with a tensor that another module has.
//
// Throws ArgumentError if a name is not that of a parameter, or if shapes, dtypes or devices
// differ. Tying what is tied already changes nothing.
void tie(Module& net, std::string_view name, std::string_view with);

}  // namespace mezzo::nn

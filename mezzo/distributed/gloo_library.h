// Gloo, by way of libmezzo-gloo.so, which is loaded by processes that torchrun, a script or a shell
// has started together.
#pragma once

#include "mezzo/distributed/gloo_module.h"

namespace mezzo::distributed {

// The functions of that library, under their own names.
struct Gloo {
  decltype(&::mezzo_gloo_interface) mezzo_gloo_interface = nullptr;
  decltype(&::mezzo_gloo_connect) mezzo_gloo_connect = nullptr;
  decltype(&::mezzo_gloo_broadcast) mezzo_gloo_broadcast = nullptr;
  decltype(&::mezzo_gloo_all_to_all) mezzo_gloo_all_to_all = nullptr;
  decltype(&::mezzo_gloo_all_gather) mezzo_gloo_all_gather = nullptr;
};

// The library, loaded by the first thread that asks. Throws DeviceError if it, or Gloo, is not
// installed, or if it was built by another version of mezzo.
const Gloo& gloo();

}  // namespace mezzo::distributed

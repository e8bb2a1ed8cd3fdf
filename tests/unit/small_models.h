// The models that tests can afford to make.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "mezzo/models/model.h"

namespace mezzo::test {

// All but the large ones whose layers a smaller one has, too: making GPT-2 takes seconds, and its
// largest size 6 GB.
inline std::vector<std::string> small_model_names() {
  std::vector<std::string> names = models::names();
  std::erase_if(names, [](const std::string& name) {
    return name.starts_with("gpt2") || name == "vit_b_16" || name == "vit_s_16";
  });
  return names;
}

// Those of them that read images.
inline std::vector<std::string> small_image_model_names() {
  std::vector<std::string> names = small_model_names();
  std::erase_if(names,
                [](const std::string& name) { return models::usual_config(name).is_for_tokens(); });
  return names;
}

// The name as GoogleTest takes it.
inline std::string identifier_of(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace mezzo::test

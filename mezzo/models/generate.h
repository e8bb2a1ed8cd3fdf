// Text from a language model: token after token.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "mezzo/models/language_model.h"
#include "mezzo/models/sample_token.h"
#include "mezzo/nn/module.h"

namespace mezzo::models {

struct GenerateOptions {
  std::int64_t tokens = 100;  // new ones, at most
  SamplingOptions sampling{};
  std::uint64_t seed = 0;  // of the choices
  // A sequence that has one of these tokens as its newest has ended.
  std::vector<std::int64_t> stops{};
  // Called with each new token as soon as it is chosen, and the number of its sequence. A sequence
  // ends where it returns false.
  std::function<bool(std::size_t sequence, std::int64_t token)> on_token{};
};

// The new tokens that follow each prompt, stopping tokens included. Prompts have one token at
// least, and may differ in length: they are one batch. Each token is chosen from the logits of all
// earlier ones, of which keys and values are kept. Sequence i draws from the stream `seed + i`, so
// it is the one that its prompt alone has with that seed, up to the rounding of products.
//
// A network with a longest sequence goes on from the newer half of a text where that reaches it.
// Runs the network in eval() mode without gradients, within the precision of the calling thread.
// Throws ArgumentError for prompts that are empty or have tokens outside the vocabulary, for a
// negative number of tokens, for what check_sampling() refuses, and unless `net` is a
// LanguageModel.
std::vector<std::vector<std::int64_t>> generate(
    nn::Module& net, const std::vector<std::vector<std::int64_t>>& prompts,
    const GenerateOptions& options = {});

}  // namespace mezzo::models

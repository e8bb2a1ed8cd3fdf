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

// The new tokens that follow each prompt, stopping tokens included. All prompts have the same
// length, of one token at least. Each token is chosen from the logits of all earlier ones, of which
// keys and values are kept. Sequence i draws from the stream `seed + i`, so it does not depend on
// the others, up to the rounding of products.
//
// A network with a longest sequence goes on from the newer half of the tokens where it is reached.
// Runs the network in eval() mode without gradients, within the precision of the calling thread.
// Throws ArgumentError for prompts that are empty, differ in length or have tokens outside the
// vocabulary, for a negative number of tokens, for what check_sampling() refuses, and unless `net`
// is a LanguageModel.
std::vector<std::vector<std::int64_t>> generate(
    nn::Module& net, const std::vector<std::vector<std::int64_t>>& prompts,
    const GenerateOptions& options = {});

}  // namespace mezzo::models

// TokenBatches: sequences of tokens, each with the tokens that follow, for language models.
#pragma once

#include <cstdint>

#include "mezzo/data/batch_source.h"
#include "mezzo/data/token_set.h"

namespace mezzo::data {

struct TokenBatchesOptions {
  std::int64_t batch_size = 64;
  std::int64_t length = 256;  // of a sequence, in tokens
  // Sequences begin anywhere, drawn with the same probability for every token that a whole sequence
  // follows. Otherwise they follow one another, from the beginning, and share no token that is
  // predicted.
  bool shuffle = true;
  bool drop_remainder = false;  // leave out the last batch of an epoch if it is not full
  std::uint64_t seed = 0;       // determines where sequences begin
  Shard shard{};                // of batches shared by several processes
};

// The number of sequences in an epoch, shuffled or not: as many as follow one another in the set.
// At the end, up to length - 1 tokens are too few for another one.
std::int64_t sequences_in(const TokenSet& tokens, std::int64_t length);

// Batch::images is i64 [n, length], and Batch::labels, of the same shape, the token after each of
// them. Where a shuffled sequence begins is a function of the seed, the epoch and the place in it;
// Batch::indices are then the places of the first tokens, otherwise the numbers of the sequences.
// Batches are in host memory; fit() moves them to the network's device.
class TokenBatches final : public BatchSource {
 public:
  // `tokens` must outlive the source. Throws ArgumentError unless length is positive and the set
  // has more tokens than that, and what other sources throw for the batch size and the shard.
  // next() rethrows what reading tokens threw.
  TokenBatches(const TokenSet& tokens, TokenBatchesOptions options);

 private:
  Batch take_batch() override;

  const TokenSet& tokens_;
  std::int64_t length_;
};

}  // namespace mezzo::data

// Mixup and cutmix: mixing the images and labels of a batch in pairs.
#pragma once

#include <cstdint>

#include "mezzo/core/random.h"
#include "mezzo/data/batch_source.h"

namespace mezzo::data {

// Which batches are mixed, and how much. Each image of a batch is mixed with the one before it (the
// first with the last), as in torchvision: with weight lambda for itself and 1 - lambda for the
// other. One-hot labels are mixed with the same weights.
//   mixup    images become lambda * image + (1 - lambda) * other (Zhang et al., "mixup: Beyond
//            empirical risk minimization", 2018)
//   cutmix   a rectangle of 1 - lambda of the area comes from the other image. Its place is uniform
//            and clipped at the edge; lambda then becomes the share that is left (Yun et al.,
//            "CutMix", 2019)
// lambda is drawn for each batch from the Beta distribution with both parameters equal to the given
// number; 0 turns that kind off. If both are on, each batch takes either kind with equal
// probability.
struct Mix {
  double mixup = 0;
  double cutmix = 0;

  bool is_on() const { return mixup > 0 || cutmix > 0; }
};

// Throws ArgumentError unless both are at least 0 and finite.
void check_mix(const Mix& mix);

// Mixes a batch on the host. images: [n, c, h, w] in f32 or 16 bits, channels-last; labels: f32
// [n, classes]. The random draws are a function of the seed, the position and the shard alone, and
// differ between shards.
void mix_batch(const Mix& mix, std::uint64_t seed, LoaderPosition at, const Shard& shard,
               Batch& batch);

// Draws lambda from Beta(a, a) with a > 0; the result is in [0, 1].
double draw_beta(double a, Generator& random);

}  // namespace mezzo::data

// Mixup and cutmix: batches whose images and labels are mixed in pairs.
#pragma once

#include <cstdint>

#include "mezzo/core/random.h"
#include "mezzo/data/batch_source.h"

namespace mezzo::data {

// Which batches are mixed, and how much. Each image of a batch is mixed with the one before it, the
// first with the last, as in torchvision: by a part lambda of it and 1 - lambda of the other. The
// labels, as rows of one number per class, are mixed alike.
//   mixup    images become lambda * image + (1 - lambda) * other (Zhang et al., "mixup: Beyond
//            empirical risk minimization", 2018)
//   cutmix   a rectangle of 1 - lambda of the area comes from the other, at a place that is uniform
//            and cut off at the edge, and lambda becomes the part that is left (Yun et al.,
//            "CutMix", 2019)
// lambda is drawn for each batch from the Beta distribution with both parameters at the number
// given; 0 turns that kind off, and with both on, each batch is of either kind alike.
struct Mix {
  double mixup = 0;
  double cutmix = 0;

  bool is_on() const { return mixup > 0 || cutmix > 0; }
};

// Throws ArgumentError unless both are at least 0 and finite.
void check_mix(const Mix& mix);

// Mixes a batch on the host. images: f32, bf16 or f16 [n, c, h, w], channels-last; labels: f32
// [n, classes]. What is drawn is a function of the seed, the position and the shard alone, and
// other for every shard.
void mix_batch(const Mix& mix, std::uint64_t seed, LoaderPosition at, const Shard& shard,
               Batch& batch);

// lambda of Beta(a, a) with a > 0, in [0, 1].
double draw_beta(double a, Generator& random);

}  // namespace mezzo::data

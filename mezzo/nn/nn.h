// All of mezzo::nn.
#pragma once

#include "mezzo/nn/activation.h"            // IWYU pragma: export
#include "mezzo/nn/batch_norm.h"            // IWYU pragma: export
#include "mezzo/nn/container.h"             // IWYU pragma: export
#include "mezzo/nn/conv.h"                  // IWYU pragma: export
#include "mezzo/nn/dropout.h"               // IWYU pragma: export
#include "mezzo/nn/embedding.h"             // IWYU pragma: export
#include "mezzo/nn/forward_hook.h"          // IWYU pragma: export
#include "mezzo/nn/freeze.h"                // IWYU pragma: export
#include "mezzo/nn/group_norm.h"            // IWYU pragma: export
#include "mezzo/nn/heads.h"                 // IWYU pragma: export
#include "mezzo/nn/inference.h"             // IWYU pragma: export
#include "mezzo/nn/init.h"                  // IWYU pragma: export
#include "mezzo/nn/layer_norm.h"            // IWYU pragma: export
#include "mezzo/nn/linear.h"                // IWYU pragma: export
#include "mezzo/nn/load_matching.h"         // IWYU pragma: export
#include "mezzo/nn/loss.h"                  // IWYU pragma: export
#include "mezzo/nn/module.h"                // IWYU pragma: export
#include "mezzo/nn/multi_head_attention.h"  // IWYU pragma: export
#include "mezzo/nn/pooling.h"               // IWYU pragma: export
#include "mezzo/nn/positions.h"             // IWYU pragma: export
#include "mezzo/nn/recompute.h"             // IWYU pragma: export
#include "mezzo/nn/recurrent.h"             // IWYU pragma: export
#include "mezzo/nn/rms_norm.h"              // IWYU pragma: export
#include "mezzo/nn/swi_glu.h"               // IWYU pragma: export
#include "mezzo/nn/tie.h"                   // IWYU pragma: export
#include "mezzo/nn/transformer.h"           // IWYU pragma: export
#include "mezzo/nn/upsample.h"              // IWYU pragma: export

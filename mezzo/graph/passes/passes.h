// The passes that clean a program up.
#pragma once

#include <array>
#include <cstddef>

#include "mezzo/graph/pass.h"
#include "mezzo/graph/passes/paint_precision.h"

namespace mezzo::graph {

// Takes out casts to the dtype that is there already, and those back from a wider one: 16 bits to
// f32 and back lose nothing, while f32 to 16 bits and back round and stay. Returns how many went.
std::size_t fold_casts(Program& program);

// Computes once what is computed more than once: the same operation with the same attributes on the
// same inputs, such as casts of one value for several readers. The first of them stays. Random
// numbers and host work stay as they are, and what host work may change is read anew after it.
// Returns how many nodes went.
std::size_t common_subexpressions(Program& program);

// Makes one call of a batch normalisation, the ReLU behind it and a sum between them, and of their
// gradients: the program that batch_norm() with a ReLU and a residual gives. What lies between must
// be read by nobody else. In 16 bits it is no longer rounded; f32 keeps its bits. Returns how many
// calls and gradients of calls it joined.
std::size_t fuse_norm(Program& program);

// Lets a call read the 16-bit numbers that its f32 inputs were cast from, and write the 16-bit
// numbers that everybody rounds its results to. Kernels widen what they read, compute in f32 and
// round once, so casts around them say nothing: the same bits, and half the memory. Products stay
// as they are. Returns how many calls lost their casts.
std::size_t fuse_casts(Program& program);
// True for operations that it narrows: on 16 bits they give what they give on the same numbers in
// f32, rounded once.
bool can_fuse_casts(const OpDef& op);

// Lets the gradient of a batch normalisation with a residual read two gradients and add them, where
// a call of its own added them before: a write and a read less, and the same bits. Returns how many
// sums went.
std::size_t join_gradients(Program& program);

// Makes one call of a product without bias, linear() or matmul(), and the sum with a vector along
// its last axis. What lies between must be read by nobody else. In 16 bits it is no longer rounded;
// in f32 the bias may be added in another place of the sum. Returns how many it joined.
std::size_t fuse_bias(Program& program);

// Pools before the ReLU instead of behind it, where nobody else reads the ReLU: the largest number
// of a window is the largest one behind it, too, and a window of none that is positive passes no
// gradient on. The ReLU and its gradient then go through the smaller image, and the larger one is
// not kept: the same bits. Returns how many poolings it moved.
std::size_t pool_before_relu(Program& program);

// Makes one call of linear(), matmul() or conv2d() and the ReLU or GELU behind it, whose result is
// written over the product: a block of memory less, and the same bits. What lies between must be
// read by nobody else, so GELU stays where its gradient is needed. Returns how many it joined.
std::size_t fuse_activation(Program& program);

// Makes cross_entropy() of its parts, in f32 and with their gradient: log_softmax() or
// log(softmax()) along the last axis of a matrix, times one_hot() of labels or other probabilities,
// added up or averaged to a scalar with a factor of -1 or, per example, -1 / n. Nobody else may
// read what lies between. What computed the gradient of the product is left to dead_code(). Returns
// how many losses it found.
std::size_t fuse_cross_entropy(Program& program);

// Takes out the nodes whose results nobody needs: neither the program nor host work. Returns how
// many.
std::size_t dead_code(Program& program);

// Computes the results of batch normalisations again in the backward pass, from what is kept for
// their own gradients anyway, instead of keeping them from the forward pass: two reads and a write
// for each, and the same bits. Does so only if the arena becomes smaller by a twentieth. Returns
// how many are computed again.
std::size_t recompute_norms(Program& program);

// Widens 16-bit numbers again in the backward pass instead of keeping the f32 copies that the
// forward pass read: a read and a write for each, and the same bits. Does so only if the arena
// becomes smaller by a twentieth. Returns how many are widened again.
std::size_t recompute_casts(Program& program);

// Computes the results of convolutions again in the backward pass that take much memory for the
// work that they are, such as those of few input channels, and casts of inputs: the same kernels on
// the same numbers, hence the same bits. Norms that give them their inputs come before them. Those
// that take most off the arena for their time come first, and all of them do not more than a small
// share of the program's work. Does so only if the arena becomes smaller by a twentieth. Returns
// how many are computed again.
std::size_t recompute_convs(Program& program);

// Updates parameters within the backward pass, as soon as their gradients are complete and nobody
// reads them any more, so that gradients give their memory back: for updates that are known to be
// done (LeafWork in ops/dispatcher/capture_hook.h), on CPUs, if their gradients go nowhere else.
// Some hundred kilobytes of gradients are updated at a time; what is left, all of a small network,
// stays where it was. The same bits. Returns how many parts it made.
std::size_t update_in_backward(Program& program);

inline constexpr Pass kPaintPrecision{
    "paint_precision", "decides the precision of every call in a region", paint_precision};
inline constexpr Pass kFoldCasts{"fold_casts", "takes out casts that change no value", fold_casts};
inline constexpr Pass kCommonSubexpressions{"common_subexpressions",
                                            "computes once what is computed more than once",
                                            common_subexpressions};
inline constexpr Pass kFuseNorm{"fuse_norm", "joins a normalisation, a sum and a ReLU", fuse_norm};
inline constexpr Pass kFuseCasts{"fuse_casts", "casts inside of calls instead of around them",
                                 fuse_casts};
inline constexpr Pass kJoinGradients{
    "join_gradients", "adds two gradients where a normalisation reads them", join_gradients};
inline constexpr Pass kFuseBias{"fuse_bias", "joins a product and its bias", fuse_bias};
inline constexpr Pass kPoolBeforeRelu{
    "pool_before_relu", "pools before the ReLU instead of behind it", pool_before_relu};
inline constexpr Pass kFuseActivation{"fuse_activation", "joins a product and its activation",
                                      fuse_activation};
inline constexpr Pass kFuseCrossEntropy{"fuse_cross_entropy", "makes cross entropy of its parts",
                                        fuse_cross_entropy};
inline constexpr Pass kRecomputeNorms{
    "recompute_norms", "computes normalisations again instead of keeping them", recompute_norms};
inline constexpr Pass kRecomputeCasts{"recompute_casts",
                                      "widens 16-bit numbers again instead of keeping them in f32",
                                      recompute_casts};
inline constexpr Pass kRecomputeConvs{"recompute_convs",
                                      "computes cheap convolutions again instead of keeping them",
                                      recompute_convs};
inline constexpr Pass kEarlyUpdates{"update_in_backward",
                                    "updates parameters as soon as their gradients are complete",
                                    update_in_backward};
inline constexpr Pass kDeadCode{"dead_code", "takes out what nobody reads", dead_code};

// Those that make one call of several, or several smaller ones, in their order. Casts go before
// gradients are joined: the sum of two 16-bit gradients is rounded, that of their f32 copies is
// not.
inline constexpr std::array kFusions{kFuseNorm,       kFuseCasts,      kJoinGradients,   kFuseBias,
                                     kPoolBeforeRelu, kFuseActivation, kFuseCrossEntropy};

}  // namespace mezzo::graph

// The passes that simplify and fuse a program.
#pragma once

#include <array>
#include <cstddef>

#include "mezzo/graph/pass.h"
#include "mezzo/graph/passes/paint_precision.h"

namespace mezzo::graph {

// Removes casts to the dtype that a value already has, and casts back from a wider one: 16 bits to
// f32 and back loses nothing, while f32 to 16 bits and back rounds and stays. Returns the number of
// casts removed.
std::size_t fold_casts(Program& program);

// Computes repeated results once: calls of the same operation with the same attributes on the same
// inputs, such as casts of one value for several readers. The first call stays. Random numbers and
// host work stay as they are, and values that host work may change are read again after it. Returns
// the number of nodes removed.
std::size_t common_subexpressions(Program& program);

// Fuses a batch normalisation, the ReLU that follows and a sum between them into one call, and
// their gradients, too. The result is the program of batch_norm() with a ReLU and a residual.
// Nobody else may read the intermediate values. In 16 bits these are no longer rounded; in f32 the
// bits stay the same. Returns the number of fused calls and gradients.
std::size_t fuse_norm(Program& program);

// Lets a call read the 16-bit values that its f32 inputs were cast from, and write the 16-bit
// values that all readers round its results to. Kernels widen their inputs, compute in f32 and
// round once, so casts around them are redundant: the bits are the same, with half the memory.
// Products stay as they are. Returns the number of calls that lost their casts.
std::size_t fuse_casts(Program& program);
// True for operations that fuse_casts() narrows: on 16-bit values they give the result that they
// give on the same values in f32, rounded once.
bool can_fuse_casts(const OpDef& op);

// Lets the gradient of a batch normalisation with a residual read two gradients and add them,
// instead of a separate addition before it. This saves a write and a read, with the same bits.
// Returns the number of sums removed.
std::size_t join_gradients(Program& program);

// Fuses a product without bias, linear() or matmul(), and its sum with a vector along the last
// axis. Nobody else may read the intermediate value. In 16 bits it is no longer rounded; in f32 the
// bias may be added at another place of the sum. Returns the number of fused calls.
std::size_t fuse_bias(Program& program);

// Pools before the ReLU instead of after it, if nobody else reads the ReLU. The maximum of a window
// stays the maximum, and a window without positive values passes no gradient on. The ReLU and its
// gradient then process the smaller image, and the larger one is not kept, with the same bits.
// Returns the number of poolings moved.
std::size_t pool_before_relu(Program& program);

// Fuses linear(), matmul() or conv2d() and the ReLU or GELU that follows. The result overwrites the
// product, which saves a block of memory, with the same bits. Nobody else may read the intermediate
// value, so GELU is not fused where its gradient is needed. Returns the number of fused calls.
std::size_t fuse_activation(Program& program);

// Finds cross_entropy() that is written in its parts, in f32 and with its gradient: log_softmax()
// or log(softmax()) along the last axis of a matrix, times one_hot() of labels or other
// probabilities, summed or averaged to a scalar with a factor of -1 or, per example, -1 / n. Nobody
// else may read the intermediate values. dead_code() removes the nodes that computed the gradient
// of the product. Returns the number of losses found.
std::size_t fuse_cross_entropy(Program& program);

// Removes the nodes whose results neither the program nor host work needs. Returns their number.
std::size_t dead_code(Program& program);

// Recomputes the results of batch normalisations in the backward pass, from the tensors that are
// kept for their own gradients anyway, instead of keeping them from the forward pass. Each costs
// two reads and a write; the bits are the same. Done only if the arena becomes smaller by at least
// a twentieth. Returns the number of results recomputed.
std::size_t recompute_norms(Program& program);

// Widens 16-bit values again in the backward pass instead of keeping the f32 copies that the
// forward pass read. Each costs a read and a write; the bits are the same. Done only if the arena
// becomes smaller by at least a twentieth. Returns the number of values widened again.
std::size_t recompute_casts(Program& program);

// Recomputes in the backward pass the results of convolutions that take much memory for little
// work, such as those of few input channels, and casts of inputs. The same kernels run on the same
// values, so the bits are the same. Normalisations that make their inputs are recomputed before
// them. Those that reduce the arena most for their time are chosen first, and together they may add
// only a small share of the program's work. Done only if the arena becomes smaller by at least a
// twentieth. Returns the number of results recomputed.
std::size_t recompute_convs(Program& program);

// Updates parameters within the backward pass, as soon as their gradients are complete and nobody
// reads the parameters any more, so that gradients free their memory. This applies to updates that
// certainly happen (LeafWork in ops/dispatcher/capture_hook.h), on CPUs, if nothing else uses the
// gradients. A few hundred kilobytes of gradients are updated at a time; the rest, for a small
// network all of it, stays at its place. The bits are the same. Returns the number of parts made.
std::size_t update_in_backward(Program& program);

inline constexpr Pass kPaintPrecision{
    "paint_precision", "decides the precision of every call in a region", paint_precision};
inline constexpr Pass kFoldCasts{"fold_casts", "removes casts that change no value", fold_casts};
inline constexpr Pass kCommonSubexpressions{
    "common_subexpressions", "computes repeated calls only once", common_subexpressions};
inline constexpr Pass kFuseNorm{"fuse_norm", "fuses a normalisation, a sum and a ReLU", fuse_norm};
inline constexpr Pass kFuseCasts{"fuse_casts", "casts within calls instead of around them",
                                 fuse_casts};
inline constexpr Pass kJoinGradients{
    "join_gradients", "adds two gradients where a normalisation reads them", join_gradients};
inline constexpr Pass kFuseBias{"fuse_bias", "fuses a product and its bias", fuse_bias};
inline constexpr Pass kPoolBeforeRelu{
    "pool_before_relu", "pools before the ReLU instead of after it", pool_before_relu};
inline constexpr Pass kFuseActivation{"fuse_activation", "fuses a product and its activation",
                                      fuse_activation};
inline constexpr Pass kFuseCrossEntropy{"fuse_cross_entropy", "fuses the parts of a cross entropy",
                                        fuse_cross_entropy};
inline constexpr Pass kRecomputeNorms{
    "recompute_norms", "recomputes normalisations instead of keeping them", recompute_norms};
inline constexpr Pass kRecomputeCasts{"recompute_casts",
                                      "widens 16-bit values again instead of keeping them in f32",
                                      recompute_casts};
inline constexpr Pass kRecomputeConvs{
    "recompute_convs", "recomputes cheap convolutions instead of keeping them", recompute_convs};
inline constexpr Pass kEarlyUpdates{"update_in_backward",
                                    "updates parameters as soon as their gradients are complete",
                                    update_in_backward};
inline constexpr Pass kDeadCode{"dead_code", "removes results that nobody reads", dead_code};

// The fusions, in order: passes that join several calls, or make them smaller. Casts are fused
// before gradients are joined, because the sum of two 16-bit gradients is rounded and that of their
// f32 copies is not.
inline constexpr std::array kFusions{kFuseNorm,       kFuseCasts,      kJoinGradients,   kFuseBias,
                                     kPoolBeforeRelu, kFuseActivation, kFuseCrossEntropy};

}  // namespace mezzo::graph

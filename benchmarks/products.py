"""How many operations the matrix products of a transformer's training step take.

A multiplication and an addition are two operations. A layer's products are the forward pass's and
two of that size in the backward pass. Attention has two products in the forward pass and five in
the backward pass, which computes the scores again; causal attention needs only half of each.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of a GPT, whose head gives logits over `classes` for each token."""
    layers: int
    width: int
    classes: int


GPTS = {"gpt-tiny": Sizes(6, 384, 256), "gpt2": Sizes(12, 768, 50257)}
VIT = Sizes(12, 768, 1000)  # vit_b_16, whose head gives logits for one token of each image
PATCH = 16


def of_blocks(sizes, tokens, causal):
    """Operations for one sequence: 12 width^2 weights of a block's linear layers, and attention."""
    linear = 6 * tokens * 12 * sizes.width ** 2
    attention = 7 * 2 * tokens ** 2 * sizes.width
    return sizes.layers * (linear + (attention // 2 if causal else attention))


def of_step(work):
    """The operations of one step, or None for networks that are not transformers."""
    if work.network in GPTS:
        sizes = GPTS[work.network]
        head = 6 * work.tokens * sizes.width * sizes.classes
        return work.batch * (of_blocks(sizes, work.tokens, causal=True) + head)
    if work.network == "vit_b_16":
        patches = (work.image_size // PATCH) ** 2
        pixels = 3 * PATCH ** 2
        embedding = 4 * patches * pixels * VIT.width  # images have no gradient
        head = 6 * VIT.width * VIT.classes
        return work.batch * (of_blocks(VIT, patches + 1, causal=False) + embedding + head)
    return None

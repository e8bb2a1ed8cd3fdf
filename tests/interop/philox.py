"""mezzo's random numbers (core/random.h, data/stream.h) in numpy: the order of its batches, and its dropout."""
import math

import numpy

MULTIPLIERS = numpy.uint64(0xD2511F53), numpy.uint64(0xCD9E8D57)
WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
LOW, HALF = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
AT_ONCE = 1 << 14  # blocks whose arrays stay in a core's cache


def halves(number):
    """The lower and the upper 32 bits."""
    return number & 0xFFFFFFFF, number >> 32


def philox(counter, key):
    """The four words, arrays of uint64, at the counters, which are four arrays of uint64."""
    c0, c1, c2, c3 = counter
    key0, key1 = key
    for _ in range(ROUNDS):
        product0, product1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0 = (product1 >> HALF) ^ c1 ^ numpy.uint64(key0)
        c2 = (product0 >> HALF) ^ c3 ^ numpy.uint64(key1)
        c1, c3 = product1 & LOW, product0 & LOW
        key0, key1 = (key0 + WEYL[0]) & 0xFFFFFFFF, (key1 + WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def words_at(seed, block, blocks):
    """The four words of each of these blocks of a stream: uint64 [blocks, 4]."""
    index = numpy.arange(block, block + blocks, dtype=numpy.uint64)
    zero = numpy.zeros_like(index)
    return numpy.stack(philox((index & LOW, index >> HALF, zero, zero), halves(seed)), axis=1)


def below(seed, bound):
    """The first number of a stream in [0, bound)."""
    block = 0
    while True:
        words = [int(word) for word in words_at(seed, block, 1)[0]]
        for high, low in (words[:2], words[2:]):
            number = high << 32 | low
            if number >= (1 << 64) % bound:
                return number % bound
        block += 1


def stream_of(seed, major, minor):
    """The seed of the stream that three numbers name."""
    counter = [numpy.array([half], numpy.uint64) for half in (*halves(major), *halves(minor))]
    words = philox(counter, halves(seed))
    return int(words[0][0]) << 32 | int(words[1][0])


class Dropout:
    """Factors of dropout, each call those of the next words of a stream, as mezzo draws them."""

    def __init__(self, seed, offset):
        self.seed, self.offset = seed, offset

    def factors(self, shape, p):
        """f32: 0 with probability p, else 1 / (1 - p)."""
        count = math.prod(shape)
        result = numpy.empty(-(-count // 4) * 4, numpy.float32)
        threshold, kept = numpy.uint64(math.ceil(p * 2**24) << 8), numpy.float32(1 / (1 - p))
        first = -(-self.offset // 4)
        for block in range(0, len(result) // 4, AT_ONCE):
            blocks = min(AT_ONCE, len(result) // 4 - block)
            words = words_at(self.seed, first + block, blocks).reshape(-1)
            numpy.multiply(words >= threshold, kept, out=result[4 * block:4 * (block + blocks)])
        self.offset = 4 * first + len(result)
        return result[:count].reshape(shape)

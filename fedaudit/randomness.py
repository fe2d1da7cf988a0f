"""Random numbers that do not depend on who draws them, when, or beside whom.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) turns a key and
a counter into four words. Here the key is the experiment's seed and the counter is (draw block,
client, round, purpose). A client's numbers in a round are therefore the same whether a run is
stacked with others, resumed, or drawn ahead, and a run has no generator state to save.

Noise takes words of 64 bits, from AES-128 over the same counters: the same paper's other kind of
generator, and many times as fast here, since processors have instructions for it.

`EntropySource` answers the same calls from the operating system's entropy, for runs whose model
is meant to be released: there it must be impossible to draw the noise again.
"""

import math
import os
from collections.abc import Sequence
from enum import IntEnum, unique
from itertools import pairwise
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fedaudit.arrays import Floats, Ints
from fedaudit.native.library import aes, distinct, philox

Words = NDArray[np.uint32]
WideWords = NDArray[np.uint64]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_PHILOX_ROUNDS = 10
_CHUNK = 1 << 12  # counters at a time: the working set stays within the L2 cache
# Samples of at most one in so many are drawn number by number, leaving repeats out.
_SPARSE = 4
_BELOW_ONE = np.float32(1.0 - 2.0**-24)
_WIDE_BELOW_ONE = 1.0 - 2.0**-53
_CIPHER_CHUNK = 1 << 14  # blocks of 16 bytes at a time
_CIPHER_BLOCK = 16


@unique
class Purpose(IntEnum):
    """What numbers are drawn for; two purposes never share a number."""

    SPLIT = 1
    DATA = 2
    INITIAL = 3
    COHORT = 4
    VALIDATION = 5
    BATCHES = 6
    DIRECTION = 7
    MAGNITUDE = 8
    # 9 drew clients anew, when intervals were made from draws.
    ATTRIBUTE = 10
    ROWS = 11
    """Which rows of a held-out client are scored."""
    PARTITION = 12
    """Rows dealt to clients."""
    ROTATION = 13
    GAUSSIAN = 14
    """Gaussian noise."""
    RECORDS = 15
    """Which records take part in a local step."""
    CLIENT_COINS = 16
    """Which clients take part in a round of Poisson sampling."""
    RECORD_BUDGETS = 17
    """Which privacy budget a record has, where budgets are drawn."""
    LAYER_MAGNITUDE = 19
    """The norm of the noise of each layer behind the first."""
    HELD_OUT_RECORDS = 20
    """Whether a record validates."""
    COUNT_NOISE = 21
    """Noise on the counts of held-out rows."""
    COUNTED_ROWS = 22
    """Which rows of a held-out client count, where their number is bounded."""
    CANARY_COINS = 23
    """Which canaries take part."""
    CANARY_DIRECTIONS = 24
    """What canaries send."""
    SHADOWS = 25
    """Who trains in a shadow run."""
    ATTACK = 26
    """What an attacker draws: starting points, who is attacked."""
    CLIENT_ROUNDS = 27
    """Which round of a block a client takes part in, by random allocation."""


class Source(Protocol):
    """Where random words come from, for one experiment or a stack of them."""

    def words(
        self, *, purpose: Purpose, round_: ArrayLike, counters: ArrayLike, count: int
    ) -> Words:
        """Random words of shape broadcast(seeds, round_, counters) + (count,)."""

    def wide_words(
        self, *, purpose: Purpose, round_: ArrayLike, counters: ArrayLike, count: int
    ) -> WideWords:
        """Random words of 64 bits of the same shape; they have nothing to do with `words`."""


def _philox(key: tuple[ArrayLike, ArrayLike], counter: Sequence[NDArray[np.uint64]]) -> Words:
    """Four words for each counter: uint32 [len, 4]. Counters and keys are uint64 below 2**32."""
    c0, c1, c2, c3 = (part.copy() for part in counter)
    k0, k1 = (np.asarray(part, dtype=np.uint64) for part in key)
    for step in range(_PHILOX_ROUNDS):
        r0 = (k0 + np.uint64(step * _KEY_STEPS[0] & 0xFFFFFFFF)) & _LOW
        r1 = (k1 + np.uint64(step * _KEY_STEPS[1] & 0xFFFFFFFF)) & _LOW
        c0 *= _MULTIPLIERS[0]
        c2 *= _MULTIPLIERS[1]
        high0, low0 = c0 >> _SHIFT, c0 & _LOW
        high1, low1 = c2 >> _SHIFT, c2 & _LOW
        high1 ^= c1
        high1 ^= r0
        high0 ^= c3
        high0 ^= r1
        c0, c1, c2, c3 = high1, low1, high0, low0
    out = np.empty((len(c0), 4), dtype=np.uint32)
    for column, part in enumerate((c0, c1, c2, c3)):
        out[:, column] = part
    return out


class CounterSource:
    """Repeatable words: the seed (one, or an array of them for a stack) is the key."""

    def __init__(self, seed: int | NDArray[np.uint64]) -> None:
        """`seed`: non-negative, below 2**64."""
        self._seed = np.asarray(seed, dtype=np.uint64)

    def words(
        self, *, purpose: Purpose, round_: ArrayLike, counters: ArrayLike, count: int
    ) -> Words:
        """Random words of shape broadcast(seeds, round_, counters) + (count,)."""
        blocks = -(-count // 4)
        seeds, rounds, clients = np.broadcast_arrays(
            self._seed, _counted(round_), _counted(counters)
        )
        shape = seeds.shape
        keys = seeds.ravel(), rounds.ravel(), clients.ravel()
        made = philox(keys, purpose=int(purpose), blocks=blocks)
        if made is not None:
            return made.reshape(*shape, blocks * 4)[..., :count]
        flat = [np.repeat(part, blocks) for part in keys]
        block = np.tile(np.arange(blocks, dtype=np.uint64), max(1, seeds.size))
        out = np.empty((len(block), 4), dtype=np.uint32)
        for start in range(0, len(block), _CHUNK):
            part = slice(start, start + _CHUNK)
            seed = flat[0][part]
            kind = np.full(len(seed), int(purpose), dtype=np.uint64)
            counter = (block[part], flat[2][part], flat[1][part], kind)
            out[part] = _philox((seed & _LOW, seed >> _SHIFT), counter)
        return out.reshape(*shape, blocks * 4)[..., :count]

    def wide_words(
        self, *, purpose: Purpose, round_: ArrayLike, counters: ArrayLike, count: int
    ) -> WideWords:
        """Random words of 64 bits, of shape broadcast(seeds, round_, counters) + (count,)."""
        seeds, rounds, clients = np.broadcast_arrays(
            self._seed, _counted(round_), _counted(counters)
        )
        shape, blocks = seeds.shape, -(-count // 2)
        flat = seeds.ravel(), rounds.ravel(), clients.ravel()
        made = aes(flat, purpose=int(purpose), blocks=blocks)
        if made is not None:
            return made.reshape(*shape, blocks * 2)[..., :count]
        out = np.empty((seeds.size, blocks * 2), dtype="<u8")
        together = max(1, _CIPHER_CHUNK // max(1, blocks))
        for first in range(0, seeds.size, together):
            rows = slice(first, first + together)
            seed, of_round, client = (part[rows] for part in flat)
            others = client[:, None], of_round[:, None], int(purpose)
            for block in range(0, blocks, _CIPHER_CHUNK):
                own = np.arange(block, min(block + _CIPHER_CHUNK, blocks), dtype=np.uint32)
                part = slice(2 * block, 2 * (block + len(own)))
                out[rows, part] = _encrypted(seed, others, own)
        return out.reshape(*shape, blocks * 2)[..., :count]


def _encrypted(
    seeds: NDArray[np.uint64], counters: Sequence[ArrayLike], blocks: NDArray[np.uint32]
) -> WideWords:
    """The words of these seeds [rows] and blocks: uint64 [rows, 2 * blocks].

    A counter is (block, client, round, purpose), four little endian words of 32 bits, as for
    Philox; `counters` are the last three, [rows, 1] each or one number. The key of AES-128 is the
    seed, little endian, and eight bytes of zero.
    """
    plain = np.empty((len(seeds), len(blocks), 4), dtype="<u4")
    for word, part in enumerate((blocks, *counters)):
        plain[..., word] = part
    # The cipher asks for room for a block more than it fills.
    found = np.empty(plain.nbytes + _CIPHER_BLOCK, dtype=np.uint8)
    starts = [0, *(np.flatnonzero(seeds[1:] != seeds[:-1]) + 1).tolist(), len(seeds)]
    width = len(blocks) * _CIPHER_BLOCK
    for start, end in pairwise(starts):
        if start < end:
            target = found.data[start * width : end * width + _CIPHER_BLOCK]
            key = algorithms.AES(int(seeds[start]).to_bytes(_CIPHER_BLOCK, "little"))
            # One block at a time is no way to hide a text, and what a generator is.
            cipher = Cipher(key, modes.ECB()).encryptor()
            cipher.update_into(plain[start:end].data.cast("B"), target)
    return found[: plain.nbytes].view("<u8").reshape(len(seeds), -1)


def _counted(values: ArrayLike) -> NDArray[np.uint64]:
    """Rounds or counters. Raises ValueError for one of 2**32 or more, whose upper bits the ciphers
    would drop: the words, and noise made of them, would be those of another."""
    found = np.asarray(values, dtype=np.uint64)
    if found.size and int(found.max()) >> 32:
        raise ValueError("rounds and counters must be below 2**32")
    return found


class EntropySource:
    """Words from the operating system, never the same twice; `seeds` only sets their shape."""

    def __init__(self, seeds: ArrayLike = 0) -> None:
        self._shape = np.shape(seeds)

    def words(
        self, *, purpose: Purpose, round_: ArrayLike, counters: ArrayLike, count: int
    ) -> Words:
        """Random words of shape broadcast(seeds, round_, counters) + (count,)."""
        shape = self._shape_with(round_, counters, count)
        return np.frombuffer(os.urandom(4 * math.prod(shape)), dtype=np.uint32).reshape(shape)

    def wide_words(
        self, *, purpose: Purpose, round_: ArrayLike, counters: ArrayLike, count: int
    ) -> WideWords:
        """Random words of 64 bits, of shape broadcast(seeds, round_, counters) + (count,)."""
        shape = self._shape_with(round_, counters, count)
        return np.frombuffer(os.urandom(8 * math.prod(shape)), dtype="<u8").reshape(shape)

    def _shape_with(self, round_: ArrayLike, counters: ArrayLike, count: int) -> tuple[int, ...]:
        return *np.broadcast_shapes(self._shape, np.shape(round_), np.shape(counters)), count


def uniforms(words: Words) -> Floats:
    """Uniform numbers strictly between 0 and 1, one a word, on a grid of 2**-32."""
    numbers = words.astype(np.float64)
    numbers += 0.5
    numbers *= 2.0**-32
    return numbers


def wide_uniforms(words: WideWords) -> Floats:
    """Uniform numbers between 2**-64 and 1 - 2**-53, one a word of 64 bits.

    Each is a number on a grid of 2**-63 rounded to the 53 bits of a float64, so it differs from a
    real uniform number by at most 2**-64 + 2**-54 times itself: small ones are fine.
    """
    # Signed integers become floats several times as fast.
    numbers = (words >> np.uint64(1)).view(np.int64).astype(np.float64)
    numbers += 0.5
    numbers *= 2.0**-63
    return np.minimum(numbers, _WIDE_BELOW_ONE, out=numbers)


def keyed_words(seed: int, *, purpose: Purpose, keys: NDArray[np.uint64], count: int) -> WideWords:
    """Random words of 64 bits for things that have keys of 64 bits: uint64 keys.shape + (count,).

    They depend on seed, purpose and key alone, and not on what else is drawn for.
    """
    return CounterSource(seed).wide_words(
        purpose=purpose, round_=keys >> _SHIFT, counters=keys & _LOW, count=count
    )


def normals(words: Words, dtype: DTypeLike = np.float32) -> NDArray[np.floating]:
    """Standard normal numbers, one a word, by Box and Muller; the last axis must be even."""
    half = words.shape[-1] // 2
    unit = uniforms(words).astype(dtype, copy=False)
    # In float32 the largest word rounds to 1, which would give a zero radius.
    radius = np.sqrt(-2 * np.log(np.minimum(unit[..., :half], _BELOW_ONE.astype(dtype))))
    angle = unit[..., half:] * np.asarray(2 * np.pi, dtype=dtype)
    numbers = np.empty(words.shape, dtype=dtype)
    np.multiply(radius, np.cos(angle), out=numbers[..., :half])
    np.multiply(radius, np.sin(angle), out=numbers[..., half:])
    return numbers


def sample_without_replacement(
    source: Source, *, purpose: Purpose, round_: ArrayLike, population: int, count: int
) -> Ints:
    """`count` distinct numbers below `population`, ascending: broadcast(seeds, round_) + (count,).

    Every subset is equally likely, but for ties among words: population / 2**32 at most.
    """
    if count * _SPARSE > population:
        words = source.words(purpose=purpose, round_=round_, counters=0, count=population)
        return _smallest(words, count)
    draws = count + count // 4 + 16
    while True:
        words = source.words(purpose=purpose, round_=round_, counters=0, count=2 * draws)
        compiled = distinct(words, population=population, count=count)
        if compiled is not None:
            return compiled
        wide = words[..., ::2].astype(np.uint64) << _SHIFT | words[..., 1::2]
        found = _first_distinct(wide % np.uint64(population), count)
        if found is not None:
            return found
        draws *= 2


def _smallest(words: Words, count: int) -> Ints:
    """The positions of the smallest words; the position is the tie-break."""
    keys = (words.astype(np.uint64) << _SHIFT) | np.arange(words.shape[-1], dtype=np.uint64)
    if count < words.shape[-1]:
        keys = np.partition(keys, count - 1, axis=-1)[..., :count]
    return np.sort((keys & _LOW).astype(np.int64), axis=-1)


def _first_distinct(drawn: NDArray[np.uint64], count: int) -> Ints | None:
    """The first `count` distinct numbers of each row, ascending; None where a row has fewer.

    Which set that is does not depend on how many more were drawn after them.
    """
    draws = drawn.shape[-1]
    keys = np.sort(drawn << _SHIFT | np.arange(draws, dtype=np.uint64), axis=-1)
    number, turn = (keys >> _SHIFT).astype(np.int64), (keys & _LOW).astype(np.int64)
    fresh = np.ones(keys.shape, dtype=np.bool_)
    np.not_equal(number[..., 1:], number[..., :-1], out=fresh[..., 1:])
    turn[~fresh] = draws
    last = np.partition(turn, count - 1, axis=-1)[..., count - 1 : count]
    if last.max() == draws:
        return None
    return number[turn <= last].reshape(*drawn.shape[:-1], count)


def permutation(size: int, *, seed: int, purpose: Purpose) -> Ints:
    """A random order of 0 .. size - 1."""
    words = CounterSource(seed).words(purpose=purpose, round_=0, counters=np.arange(size), count=2)
    keys = (words[:, 0].astype(np.uint64) << _SHIFT) | words[:, 1]
    return np.argsort(keys, kind="stable")

"""Known answers of Philox, independence of the layout, and the distributions drawn from words.

Statistical checks use fixed seeds and reject at `FALSE_ALARM`, so one of them fails by chance, for
a new seed, once in a million draws of that seed.
"""

import itertools
import os
import struct
from contextlib import nullcontext
from typing import cast

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedaudit.randomness import (
    CounterSource,
    EntropySource,
    Purpose,
    _philox,
    normals,
    permutation,
    sample_without_replacement,
    uniforms,
    wide_uniforms,
)
from tests.native_fallback import fallback_only

FALSE_ALARM = 1e-6


@pytest.mark.parametrize(
    ("key", "counter", "answer"),
    [
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF, 0xFFFFFFFF),
            (0xFFFFFFFF,) * 4,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers_of_philox_4x32_10(key, counter, answer):
    """From the reference implementation (Random123, kat_vectors)."""
    found = _philox(key, [np.array([part], dtype=np.uint64) for part in counter])
    assert tuple(found[0].tolist()) == answer


def test_the_counter_is_block_client_round_purpose_and_the_key_the_seed() -> None:
    seed = 0x299F31D0A4093822
    words = CounterSource(seed).words(purpose=Purpose.DATA, round_=9, counters=7, count=8)
    key = (seed & 0xFFFFFFFF, seed >> 32)
    for block in (0, 1):
        counter = [np.array([part], dtype=np.uint64) for part in (block, 7, 9, Purpose.DATA)]
        assert words[4 * block : 4 * block + 4].tolist() == _philox(key, counter)[0].tolist()


@pytest.mark.parametrize("kind", ["words", "wide_words"])
def test_words_do_not_depend_on_what_they_are_drawn_beside(kind: str) -> None:
    """One seed for many rows, rows of more blocks than are made at a time, and repeats."""
    seeds, rounds, clients = np.array([3, 0, 3, 2**40], dtype=np.uint64), [1, 8], [0, 5, 999_999]
    for count in (1, 13, 40_001):
        together = getattr(CounterSource(seeds.reshape(-1, 1, 1)), kind)(
            purpose=Purpose.DIRECTION,
            round_=np.reshape(rounds, (-1, 1)),
            counters=np.array(clients),
            count=count,
        )
        assert together.shape == (4, 2, 3, count)
        for (i, seed), (j, round_), (k, client) in itertools.product(
            enumerate(seeds.tolist()), enumerate(rounds), enumerate(clients)
        ):
            alone = getattr(CounterSource(seed), kind)(
                purpose=Purpose.DIRECTION, round_=round_, counters=client, count=count + 30
            )
            assert np.array_equal(together[i, j, k], alone[:count])


@pytest.mark.parametrize(("kind", "count"), [("words", 4), ("wide_words", 2)])
def test_seeds_purposes_rounds_and_clients_share_no_numbers(kind: str, count: int) -> None:
    blocks = {
        getattr(CounterSource(seed), kind)(
            purpose=purpose, round_=round_, counters=client, count=count
        ).tobytes()
        for seed in (0, 1, 2**32, 2**32 + 1, 2**53 - 1, 2**64 - 1)
        for purpose in Purpose
        for round_ in (0, 1, 1_000_000)
        for client in (0, 1, 999_999)
    }
    assert len(blocks) == 6 * len(Purpose) * 3 * 3


# -- words of 64 bits ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["words", "wide_words"])
@pytest.mark.parametrize("name", ["round_", "counters"])
def test_a_round_or_counter_without_words_of_its_own_is_refused(kind, name) -> None:
    draw = getattr(CounterSource(7), kind)
    places = {"round_": 0, "counters": 0, name: np.array([0, 2**32 - 1])}
    first, last = draw(purpose=Purpose.GAUSSIAN, count=2, **places)
    assert not np.array_equal(first, last)
    with pytest.raises(ValueError, match="below 2"):
        draw(purpose=Purpose.GAUSSIAN, count=2, **{**places, name: 2**32})


def test_wide_words_are_aes_of_the_counter_with_the_seed_as_key() -> None:
    """Counter (block, client, round, purpose) as little endian words of 32 bits."""
    seed = 2**63 + 12345
    words = CounterSource(seed).wide_words(purpose=Purpose.GAUSSIAN, round_=9, counters=7, count=5)
    cipher = Cipher(algorithms.AES(seed.to_bytes(16, "little")), modes.ECB()).encryptor()
    plain = b"".join(struct.pack("<4I", block, 7, 9, Purpose.GAUSSIAN) for block in range(3))
    assert words.tobytes() == cipher.update(plain)[:40]


@pytest.mark.parametrize("compiled", [True, False])
def test_wide_words_are_known_answers_of_aes(compiled: bool) -> None:
    """AESAVS (NIST, 2002), appendices D and E: variable keys and a variable text."""
    known = {
        (0x80, 0): "0edd33d3c621e546455bd8ba1418bec8",
        (2**64 - 1, 0): "84be19e053635f09f2665e7bae85b42d",
        (0, 0x80): "3ad78e726c1ec02b7ebfe92b23d9ec34",
    }
    nothing = cast(Purpose, 0)
    with nullcontext() if compiled else fallback_only():
        for (seed, block), expected in known.items():
            words = CounterSource(seed).wide_words(
                purpose=nothing, round_=0, counters=0, count=2 * block + 2
            )
            assert words[-2:].tobytes().hex() == expected


@pytest.mark.parametrize("source", [CounterSource(11), EntropySource()], ids=["counter", "entropy"])
@pytest.mark.parametrize(("kind", "of"), [("words", uniforms), ("wide_words", wide_uniforms)])
def test_words_become_uniform_numbers(source, kind, of):
    words = getattr(source, kind)(
        purpose=Purpose.DATA, round_=0, counters=np.arange(2000), count=50
    )
    assert stats.kstest(of(words).ravel(), "uniform").pvalue > FALSE_ALARM


def test_uniform_numbers_are_fine_near_0_and_lie_below_1() -> None:
    extremes = uniforms(np.array([0, 1, 2**31, 2**32 - 1], dtype=np.uint32))
    assert (extremes[0], extremes[-1]) == (2.0**-33, 1 - 2.0**-33)
    assert np.all((extremes > 0) & (extremes < 1))
    wide = wide_uniforms(np.array([0, 2, 2**63, 2**64 - 1], dtype=np.uint64))
    assert wide.tolist() == [2.0**-64, 3 * 2.0**-64, 0.5, 1 - 2.0**-53]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normals_of_extreme_words_are_finite_and_no_radius_is_zero(dtype: type) -> None:
    extremes = np.array([0, 1, 2**31, 2**32 - 2, 2**32 - 1], dtype=np.uint32)
    words = np.array(list(itertools.product(extremes, extremes)))
    numbers = normals(words, dtype)
    assert numbers.dtype == dtype
    assert np.isfinite(numbers).all()
    assert np.all(np.hypot(numbers[:, 0], numbers[:, 1]) > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normals_are_normal_and_their_pairs_independent(dtype: type) -> None:
    words = CounterSource(12).words(
        purpose=Purpose.DATA, round_=0, counters=np.arange(2000), count=50
    )
    numbers = normals(words, dtype).astype(np.float64)
    assert stats.kstest(numbers.ravel(), "norm").pvalue > FALSE_ALARM
    first, second = numbers[:, :25].ravel(), numbers[:, 25:].ravel()
    assert stats.pearsonr(first, second).pvalue > FALSE_ALARM
    assert stats.pearsonr(first**2, second**2).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("population", "count"), [(5, 3), (5, 1), (8, 2), (6, 6)], ids=str)
def test_every_subset_is_equally_likely(population: int, count: int) -> None:
    """Both ways of drawing: number by number for (5, 1) and (8, 2), by the smallest words else."""
    samples = sample_without_replacement(
        CounterSource(13),
        purpose=Purpose.COHORT,
        round_=np.arange(20_000),
        population=population,
        count=count,
    )
    subsets = {
        subset: place
        for place, subset in enumerate(itertools.combinations(range(population), count))
    }
    found = np.bincount(
        [subsets[tuple(sample)] for sample in samples.tolist()], minlength=len(subsets)
    )
    assert len(subsets) == 1 or stats.chisquare(found).pvalue > FALSE_ALARM


@given(
    st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))),
    st.integers(0, 2**64 - 1),
)
def test_samples_are_distinct_ascending_and_the_same_alone_and_stacked(sizes, seed):
    population, count = sizes
    seeds = np.array([seed, 1, 2], dtype=np.uint64)

    def draw(source: CounterSource, rounds: list[int]) -> np.ndarray:
        return sample_without_replacement(
            source,
            purpose=Purpose.COHORT,
            round_=np.array(rounds)[:, None] if len(rounds) > 1 else rounds[0],
            population=population,
            count=count,
        )

    together = draw(CounterSource(seeds), [1, 2, 3])
    assert together.shape == (3, 3, count)
    assert together.min() >= 0
    assert together.max() < population
    assert np.all(np.diff(together, axis=-1) > 0)
    assert np.array_equal(draw(CounterSource(seed), [2]), together[1, 0])


@given(st.integers(1, 400), st.integers(0, 2**53 - 1))
def test_a_permutation_has_every_number_once(size: int, seed: int) -> None:
    order = permutation(size, seed=seed, purpose=Purpose.SPLIT)
    assert np.array_equal(np.sort(order), np.arange(size))
    assert np.array_equal(order, permutation(size, seed=seed, purpose=Purpose.SPLIT))


def test_every_permutation_is_equally_likely() -> None:
    orders = {order: place for place, order in enumerate(itertools.permutations(range(4)))}
    found = np.bincount(
        [
            orders[tuple(permutation(4, seed=seed, purpose=Purpose.SPLIT).tolist())]
            for seed in range(5000)
        ],
        minlength=len(orders),
    )
    assert stats.chisquare(found).pvalue > FALSE_ALARM


@pytest.mark.parametrize("kind", ["words", "wide_words"])
def test_words_are_all_bits_of_the_operating_system_and_no_others(kind, monkeypatch):
    """A generator between the two, or a bit that is used twice, changes what comes out."""
    stream, given = np.random.default_rng(5).bytes(1 << 12), bytearray()

    def urandom(size: int) -> bytes:
        begin = len(given)
        given.extend(stream[begin : begin + size])
        return stream[begin : begin + size]

    monkeypatch.setattr(os, "urandom", urandom)
    source = EntropySource(np.zeros((2, 1), dtype=np.uint64))
    found = [
        getattr(source, kind)(
            purpose=Purpose.GAUSSIAN, round_=round_, counters=np.arange(3), count=count
        )
        for round_, count in ((1, 4), (1, 4), (2, 7))
    ]
    assert found[0].shape == (2, 3, 4)
    assert b"".join(words.tobytes() for words in found) == bytes(given)


@pytest.mark.parametrize("kind", ["words", "wide_words"])
def test_secret_words_have_more_than_25_bits_of_entropy(kind: str) -> None:
    """Blocks of 128 bits, drawn one by one: two of 2^15 are alike by chance in one test of 2^99;
    of 16 bits of entropy the first few hundred have two."""
    draw, count = getattr(EntropySource(), kind), 4 if kind == "words" else 2
    blocks = [
        draw(purpose=Purpose.GAUSSIAN, round_=1, counters=0, count=count).tobytes()
        for _ in range(1 << 15)
    ]
    assert len(set(blocks)) == len(blocks)

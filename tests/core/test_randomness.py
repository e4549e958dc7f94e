"""Streams are AES, differ by name and process, and cannot be copied."""

from __future__ import annotations

import copy
import hashlib
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
from randomgen import AESCounter

from dpkit_core.noise.randomness import Randomness, Stream

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")


def words(stream: Stream, count: int = 4) -> list[int]:
    return [int(word) for word in stream.generator.integers(2**64, size=count, dtype=np.uint64)]


def block(key: str, plaintext: str) -> str:
    """The first block of the generator with this key and counter, all in the standard's byte order."""
    generator = AESCounter(
        key=int.from_bytes(bytes.fromhex(key), "little"),
        counter=int.from_bytes(bytes.fromhex(plaintext), "little"),
    )
    return generator.random_raw(2).astype("<u8").tobytes().hex()


@pytest.mark.parametrize(
    ("key", "plaintext", "ciphertext"),
    [
        # FIPS 197, Appendix C.1
        (
            "000102030405060708090a0b0c0d0e0f",
            "00112233445566778899aabbccddeeff",
            "69c4e0d86a7b0430d8cdb78070b4c55a",
        ),
        # NIST SP 800-38A, F.1.1 (ECB-AES128), block 1
        (
            "2b7e151628aed2a6abf7158809cf4f3c",
            "6bc1bee22e409f96e93d7e117393172a",
            "3ad77bb40d7a3660a89ecaf32466ef97",
        ),
    ],
)
def test_the_generator_is_aes_128_with_the_key_used_directly(
    key: str, plaintext: str, ciphertext: str
) -> None:
    assert block(key, plaintext) == ciphertext


def test_a_stream_uses_its_key_directly_and_counts_from_zero() -> None:
    # AES-128 of the zero block under the zero key, as in the GCM specification, test case 1 (H).
    drawn = np.array(words(Stream("any", bytes(16)), 2), dtype="<u8")
    assert drawn.tobytes().hex() == "66e94bd4ef8a2c3b884cfa59ca342b2e"
    hashed = AESCounter(0).random_raw(2)  # seed=, not key=
    assert hashed.tolist() != drawn.tolist()


def test_all_128_bits_of_a_key_matter() -> None:
    first = {words(Stream("any", (1 << bit).to_bytes(16, "little")), 1)[0] for bit in range(128)}
    assert len(first) == 128


def test_streams_of_the_system_differ_by_name_and_by_run() -> None:
    one, other = Randomness.from_os(), Randomness.from_os()
    drawn = [words(one.stream("a")), words(one.stream("b")), words(other.stream("a"))]
    assert len({tuple(draw) for draw in drawn}) == 3


def test_seeded_streams_repeat_by_seed_and_name_only() -> None:
    def draw(seed: int, name: str) -> list[int]:
        return words(Randomness.from_seed(seed).stream(name))

    assert draw(5, "a") == draw(5, "a")
    assert len({tuple(draw(*each)) for each in [(5, "a"), (5, "b"), (6, "a"), (-5, "a")]}) == 4


def test_seed_and_name_are_not_confused() -> None:
    assert words(Randomness.from_seed(1).stream("1a")) != words(Randomness.from_seed(11).stream("a"))


def test_keys_have_128_bits_of_the_system_or_of_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = hashlib.sha256(b"5:a").digest()
    assert words(Randomness.from_seed(5).stream("a")) == words(Stream("a", digest[:16]))
    monkeypatch.setattr(os, "urandom", lambda count: digest[-count:])
    assert words(Randomness.from_os().stream("a")) == words(Stream("a", digest[-16:]))


def test_asking_again_for_a_name_continues_the_stream() -> None:
    randomness = Randomness.from_seed(5)
    first = words(randomness.stream("a"))
    second = words(randomness.stream("a"))
    assert first != second
    assert first + second == words(Randomness.from_seed(5).stream("a"), 8)


def test_threads_that_ask_for_a_name_at_once_share_one_stream() -> None:
    randomness = Randomness.from_os()
    start = threading.Barrier(8)
    found: list[Stream] = []

    def ask() -> None:
        start.wait()
        found.append(randomness.stream("a"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(stream) for stream in found}) == 1


def test_the_certificate_tells_seeded_from_private() -> None:
    assert Randomness.from_seed(1).reproducible
    assert "not private" in Randomness.from_seed(1).describe()
    assert not Randomness.from_os().reproducible
    assert "operating system" in Randomness.from_os().describe()


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("kind", ["stream", "randomness"])
def test_copies_are_refused_with_the_reason(kind: str, copier: object) -> None:
    randomness = Randomness.from_os()
    target = randomness if kind == "randomness" else randomness.stream("a")
    with pytest.raises(TypeError, match="repeat the noise"):
        copier(target)


def test_no_secret_is_printed() -> None:
    key = bytes(range(100, 116))
    shown = repr(Stream("noise", key)) + repr(Randomness.from_seed(987654321))
    assert "noise" in shown
    for secret in [key.hex(), str(int.from_bytes(key, "little")), str(key), "987654321"]:
        assert secret not in shown


def test_global_numpy_state_is_untouched() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    words(Randomness.from_os().stream("a"))
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def drawn_in_children(stream: Stream, children: int) -> list[list[int]]:
    """What each of several forked children draws next from the stream."""
    results = []
    for _ in range(children):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, ",".join(map(str, words(stream))).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            results.append([int(word) for word in pipe.read().split(",")])
        os.waitpid(child, 0)
    return results


@forks
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("randomness", [Randomness.from_os(), Randomness.from_seed(3)])
def test_forked_children_share_no_noise_with_each_other_or_the_parent(
    randomness: Randomness,
) -> None:
    stream = randomness.stream("forked")
    words(stream)
    children = drawn_in_children(stream, 2)
    draws = [*children, words(stream)]
    assert len({tuple(draw) for draw in draws}) == 3


@forks
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_seeded_parent_stays_reproducible_around_a_fork() -> None:
    stream = Randomness.from_seed(3).stream("a")
    first = words(stream)
    drawn_in_children(stream, 1)
    assert first + words(stream) == words(Randomness.from_seed(3).stream("a"), 8)


@pytest.mark.slow
def test_a_spawned_worker_is_refused_the_stream() -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=words, args=(Randomness.from_os().stream("a"),)
    )
    with pytest.raises(TypeError, match="repeat the noise"):
        process.start()

"""How the library is found, built and left out; what it counts is compared by the tests of its callers."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import dpkit_kernels
import numpy as np
import pytest
from dpkit_kernels import concordance, counts, library, rows, trees

from dpkit_core.errors import InvalidOption

FOLDER = Path(__file__).parents[1]
needs_kernels = pytest.mark.skipif(not dpkit_kernels.COMPILED, reason="no kernels were compiled")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")


def test_the_file_of_c_has_the_version_that_is_asked_for():
    source = (FOLDER / "dpkit_kernels/kernels.c").read_text(encoding="utf-8")
    assert f"#define ABI {library.ABI}\n" in source


def test_without_a_library_numpy_serves_unless_kernels_are_required(tmp_path):
    assert library.found(tmp_path, "off")[0] is None
    assert library.found(tmp_path, "auto") == (
        None,
        "kernels in NumPy, since none were compiled when dpkit-kernels was installed",
    )
    with pytest.raises(InvalidOption, match="DPKIT_KERNELS is require, but none were compiled"):
        library.found(tmp_path, "require")
    with pytest.raises(InvalidOption, match="DPKIT_KERNELS is 'yes'; set it to auto, require or off"):
        library.found(tmp_path, "yes")


def test_what_is_no_library_is_told_and_not_used(tmp_path):
    (tmp_path / "_kernels.so").write_bytes(b"no library")
    assert library.found(tmp_path, "auto")[1] == "kernels in NumPy, since _kernels.so cannot be loaded"


@needs_compiler
def test_a_library_of_another_version_is_told_and_not_used(tmp_path):
    source = tmp_path / "other.c"
    source.write_text("int dpkit_abi(void) { return -1; }\n", encoding="ascii")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", tmp_path / "_kernels.so"], check=True)
    found, why = library.found(tmp_path, "auto")
    assert found is None
    assert why == f"kernels in NumPy, since _kernels.so has version -1 rather than {library.ABI}"


@pytest.mark.parametrize("wrong", ["0", "-1", "two", ""])
def test_a_wrong_number_of_threads_is_refused(wrong):
    with pytest.raises(InvalidOption, match="DPKIT_THREADS is "):
        library.threads(wrong)


@pytest.mark.slow
def test_wrong_variables_stop_the_import_before_anything_is_spent():
    for name in ("DPKIT_THREADS", "DPKIT_KERNELS"):
        done = subprocess.run(
            [sys.executable, "-c", "import dpkit_kernels"],
            env={**os.environ, name: "many"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert f"InvalidOption: {name} is 'many'; set it to " in done.stderr


@pytest.mark.parametrize(("threads", "count"), [(1, 0), (3, 0), (1, 5), (3, 5), (8, 5)])
def test_threads_share_out_each_index_once(threads, count, monkeypatch):
    monkeypatch.setattr(library, "THREADS", threads)
    seen = []
    library.shared_out(seen.extend, count)
    assert sorted(seen) == list(range(count))


@needs_kernels
def test_an_exception_in_a_thread_arrives(monkeypatch):
    monkeypatch.setattr(library, "THREADS", 2)
    with pytest.raises(ZeroDivisionError):
        library.shared_out(lambda indices: 1 // indices.start, 2)


@needs_kernels
@pytest.mark.parametrize(("compiler", "said"), [("off", "DPKIT_KERNELS is off"), ("require", "compiled")])
def test_the_environment_chooses(compiler, said):
    done = subprocess.run(
        [sys.executable, "-c", "import dpkit_kernels; print(dpkit_kernels.STATUS)"],
        env={**os.environ, "DPKIT_KERNELS": compiler},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().endswith(said)


@needs_kernels
@pytest.mark.parametrize("size", [2**16 + 1, pytest.param(2**20 + 3, marks=pytest.mark.slow)])
def test_inversions_are_counted_on_every_level_of_the_tree(size):
    # A rotation by r has r (n - r) inversions; a reversed one all others.
    n, turned = size, size // 3
    rotated = np.roll(np.arange(n), turned).astype(np.float64)
    ranks, ties = concordance.ranks(np.column_stack([rotated, -rotated]))
    counts = concordance.concordance(np.arange(n, dtype=np.int32), 0, ranks, ties, ranks.max(axis=1) + 1)
    expected = n * (n - 1) // 2 - 2 * turned * (n - turned)
    assert counts.tolist() == [expected, -expected]


@needs_kernels
def test_arrays_of_several_lengths_are_refused():
    few, many, leaves = np.zeros(4), np.zeros(5), np.zeros(4, np.uint8)
    for call in (
        lambda: trees.moved(many, few, leaves),
        lambda: trees.differences(few, many, factor=1.0, limit=1),
        lambda: trees.clipped_sums(np.zeros(5, np.int32), 1, leaves, 1),
        lambda: boosted(scores=np.zeros(5, np.int32), leaves=leaves),
        lambda: boosted(scores=np.zeros(4, np.int32), leaves=np.zeros(5, np.uint8)),
    ):
        with pytest.raises(ValueError, match="one for each record"):
            call()
    with pytest.raises(ValueError, match="there are 2 values of 4 leaves"):
        boosted(scores=np.zeros(4, np.int32), leaves=leaves, splits=2)


@needs_kernels
def test_more_leaves_than_a_byte_tells_apart_are_refused():
    for call in (
        lambda: trees.clipped_sums(np.zeros(4, np.int32), 1, np.zeros(4, np.uint8), 257),
        lambda: boosted(scores=np.zeros(4, np.int32), leaves=np.zeros(4, np.uint8), splits=9),
    ):
        with pytest.raises(ValueError, match="a byte tells at most 256 apart"):
            call()


def boosted(*, splits=1, **arrays):
    asked = np.zeros(splits, np.intp)
    return trees.boosted(np.zeros((1, 4), np.uint8), asked, asked, values=np.zeros(2), limit=1, **arrays)


@needs_kernels
@pytest.mark.parametrize("limit", [2**15, 2**23, 2**23 + 1, 2**31 - 1])
@pytest.mark.parametrize(("groups", "size"), [(1, 1), (8, 7), (9, 3000), (16, 1024), (17, 1025), (256, 8192)])
def test_sums_of_clipped_values_are_exact_at_the_limits(limit, groups, size):
    rng = np.random.default_rng(size)
    values = rng.choice([-(2**31), -limit, -1, 0, 1, limit, 2**31 - 1], size).astype(np.int32)
    of = rng.integers(0, groups, size).astype(np.uint8)
    clipped = np.clip(values.astype(int), -limit, limit)
    expected = [int(clipped[of == group].sum()) for group in range(groups)]
    assert trees.clipped_sums(values, limit, of, groups).tolist() == expected


# Building


def built(source: Path, out: Path, kind: str, compiler: str = "cc") -> set[str]:
    """Build from a source, and return the names in what was built, under its first folder."""
    subprocess.run(
        ["uv", "build", "-q", f"--{kind}", "--out-dir", out, source],
        env={**os.environ, "CC": compiler, "DPKIT_KERNELS": "auto"},
        check=True,
        capture_output=True,
    )
    if kind == "wheel":
        (made,) = out.glob("*.whl")
        with zipfile.ZipFile(made) as archive:
            archive.extractall(out / "installed")
            return {made.name, *archive.namelist()}
    (made,) = out.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        archive.extractall(out, filter="data")
        return {name.partition("/")[2] for name in archive.getnames()}


def status(installed: Path) -> str:
    """Return what a wheel that was unpacked says of its kernels."""
    code = "import dpkit_kernels; print(dpkit_kernels.__file__); print(dpkit_kernels.STATUS)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(installed), "DPKIT_KERNELS": "auto"},
        capture_output=True,
        text=True,
        check=True,
    )
    file, said = done.stdout.splitlines()
    assert Path(file).is_relative_to(installed)
    return said


@pytest.mark.exhaustive
def test_the_sdist_has_the_source_and_makes_a_wheel_with_and_without_a_compiler(tmp_path):
    names = built(FOLDER, tmp_path, "sdist")
    assert {"hatch_build.py", "dpkit_kernels/kernels.c"} <= names
    assert not [name for name in names if name.startswith("dpkit_kernels/_kernels")]
    source = tmp_path / f"dpkit_kernels-{version('dpkit-kernels')}"

    names = built(source, tmp_path / "pure", "wheel", compiler="/bin/false")
    assert any(name.endswith("-py3-none-any.whl") for name in names)
    assert not [name for name in names if name.startswith("dpkit_kernels/_kernels.")]
    assert status(tmp_path / "pure/installed") == (
        "kernels in NumPy, since none were compiled when dpkit-kernels was installed"
    )
    if shutil.which("cc"):
        names = built(source, tmp_path / "compiled", "wheel")
        assert not any(name.endswith("-py3-none-any.whl") for name in names)
        assert any("-py3-none-" in name for name in names)
        assert status(tmp_path / "compiled/installed") == "kernels compiled"
    assert not [*(source / "dpkit_kernels").glob("_kernels.*")]


def scaled(X):
    found = np.empty(X.shape[::-1])
    rows.scaled(X, [0.5] * X.shape[1], [2.0] * X.shape[1], found, norm=1.0, factor=0.5)
    return found


def placed(X):
    found = np.empty(X.shape[::-1])
    concordance.ordered(X, np.arange(len(X))[::-1], found)
    return found


@needs_kernels
@pytest.mark.parametrize(
    "count",
    [
        scaled,
        lambda X: rows.along(X, np.array([1.0, -2.0])),
        lambda X: rows.products(X, np.zeros(2), np.full(2, 9.0), 8.0, np.arange(20.0)),
        lambda X: trees.code(X, [np.array([-1.0, 0.0])] * 2),
        lambda X: counts.cells(X[:, 1], np.array([-1.0, 0.0])),
        lambda X: concordance.contents(X, X[:, 1], [1, 0]),
        placed,
    ],
)
def test_numbers_beside_others_that_are_half_as_long_are_found(count):
    records = np.zeros(20, dtype=[("numbers", float, 2), ("other", np.int32)])
    X = records["numbers"]
    X[:] = np.random.default_rng(0).normal(size=X.shape)
    np.testing.assert_array_equal(count(X), count(X.copy()))

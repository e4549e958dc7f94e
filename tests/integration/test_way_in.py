"""The way of one record, from the line of a file to the block that parts are given."""

import itertools
import sys

import numpy as np
import pyarrow as pa
import pytest
from dpkit_cli.app import app
from typer.testing import CliRunner

from dpkit_core import Block, Dataset

RECORD = 7317.25


def has_record(value):
    """Return whether a value, or what is directly in it, is or spells the record's number."""
    if isinstance(value, bytes):
        return str(RECORD).encode() in value
    if isinstance(value, pa.RecordBatch | pa.Table):
        return any(map(has_record, value.columns))
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return RECORD in (entries := value.to_pylist()) or str(RECORD) in entries
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and bool((value == RECORD).any())
    if isinstance(value, list | tuple):
        return any(map(has_record, value))
    return isinstance(value, Block | Dataset) and has_record([getattr(value, name, None) for name in "Xy"])


def handed_over(run):
    """Return (module, function) of each call from one module of dpkit into another that has the record."""
    calls, seen = [], set()

    def module_of(frame):
        name = "" if frame is None else frame.f_globals.get("__name__", "")
        return name if name.startswith("dpkit_") else None

    def watch(frame, event, argument):
        module = module_of(frame)
        if event != "call" or module is None or frame in seen:
            return
        seen.add(frame)  # a generator that goes on is no new call
        above = frame.f_back
        while above is not None and module_of(above) is None:
            above = above.f_back
        code = frame.f_code
        given = (frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount])
        if module_of(above) != module and any(map(has_record, given)):
            calls.append((module.rpartition(".")[2], code.co_name))

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.slow
def test_a_record_goes_down_to_its_block_once(tmp_path):
    (tmp_path / "t.csv").write_text(f"x,y\n{RECORD},1\n")
    words = ("compose", tmp_path / "t.csv", "--target", "y", "--regressor", "winsorized_least_squares")
    done = []

    def run():
        done.append(CliRunner().invoke(app, [*map(str, words), "--output", str(tmp_path / "release.json")]))

    calls = handed_over(run)
    assert done[0].exit_code == 3, done[0].output  # one record is too few for a model
    assert ("plan", "run") in calls
    way = itertools.takewhile(lambda call: call != ("plan", "run"), calls)
    # The source makes a batch of it, the data set asks for its features and its target, and a block has them.
    # Sums are asked for later, and of the data set how many records it has, and names.
    assert [call for call in way if call[0] not in {"sums", "dataset"}] == [
        ("encode", "encode"),
        ("encode", "encode"),
        ("rules", "filled"),
        ("rules", "complete"),
        ("rules", "transformed"),
    ]

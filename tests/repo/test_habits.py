"""Habits that a reader of one test cannot see broken: no test asserts how long something took.

A busy machine takes ten times as long, and the assertion then says nothing of the code. What is fast is shown
as a ratio to a named alternative in ``tests/benchmarks``; what may hang ends in ``pytest.fail``.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = sorted(
    path
    for pattern in ("tests/**/*.py", "plugins/*/*/tests/**/*.py")
    for path in ROOT.glob(pattern)
    if "benchmarks" not in path.parts
)
CLOCKS = {
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "time",
}
DURATIONS = {"duration", "elapsed", "seconds", "took"}


def reads_clock(node: ast.AST) -> bool:
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in CLOCKS
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "time"
        for call in ast.walk(node)
    )


def is_duration(node: ast.expr, measured: set[str]) -> bool:
    """Return whether an expression is a time: read from a clock, such a name, or called a duration."""
    if reads_clock(node):
        return True
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name) if name in measured | DURATIONS:
                return True
            case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
                if name.rpartition("_")[2] in DURATIONS:
                    return True
    return False


def upper_limits(node: ast.Compare) -> Iterator[ast.expr]:
    """Yield what a comparison asserts to be the smaller."""
    terms = [node.left, *node.comparators]
    for left, operator, right in zip(terms, node.ops, terms[1:], strict=False):
        if isinstance(operator, ast.Lt | ast.LtE):
            yield left
        elif isinstance(operator, ast.Gt | ast.GtE):
            yield right


def time_limits(source: str) -> list[int]:
    """Return the lines of a module on which a test asserts that something was fast."""
    if not any(word in source for word in ("time.", *DURATIONS)):
        return []  # parsing all tests takes seconds
    tree = ast.parse(source)
    measured = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and reads_clock(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        statement.lineno
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assert)
        for node in ast.walk(statement.test)
        if isinstance(node, ast.Compare) and any(is_duration(each, measured) for each in upper_limits(node))
    ]


def test_no_test_asserts_how_long_something_took() -> None:
    for path in TESTS:
        assert not time_limits(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("assert time.perf_counter() - start < 2", True),
        ("start = time.monotonic()\nwork()\ntook = time.monotonic() - start\nassert 5 >= took", True),
        ("assert finding.seconds <= specimen.limit", True),
        ("assert row['wall_seconds'] < 3", True),
        ("assert 0 < listed['seconds'] < 1.0", True),
        ("assert row['wall_seconds'] > 0", False),
        ("assert slow.seconds >= 1.0", False),  # it sleeps for a second
        ("assert options == {'seconds': 1.0}", False),
        ("if time.monotonic() > deadline:\n    pytest.fail('nothing happened')", False),
    ],
)
def test_an_asserted_time_is_found(source: str, found: bool) -> None:
    assert bool(time_limits(source)) == found

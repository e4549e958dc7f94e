"""Wrong use and bad data end with 2, a sentence, no traceback, and nothing spent or written."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.usefixtures("parts")

SELECTION = ("--scorer", "large", "--selector", "best", "-k", "2", "--accountant", "basic")
NUMBERS = "a,b,c,y\n" + "0.1,0.2,0.3,0.4\n" * 5


def numbers_with(value):
    return f"{NUMBERS}0.1,{value},0.3,0.4\n"


# What the table holds (None: the folder's numbers.csv), the arguments, and what the message must say.
CASES = {
    "NaN": (numbers_with("nan"), (), ["'b'", "missing", "drop"]),
    "missing": (numbers_with(""), (), ["'b'", "missing", "drop"]),
    "inf": (numbers_with("inf"), (), ["'b'", "infinite", "remove"]),
    "strings": (numbers_with("much"), (), ["record 6: column 'b'", "dpkit schema DATA", "--features"]),
    "missing target": (None, ("--target", "price"), ["target 'price'", "'a', 'b', 'c', 'y'"]),
    "target not named": (None, (), ["--target"]),
    "text target": (NUMBERS.replace("0.4", "high"), (), ["target 'y'", "not a number", "--target"]),
    "duplicate columns": (NUMBERS.replace("b,c", "b,b"), (), ["'b' appears twice", "rename"]),
    "no rows": ("a,b,c,y\n", (), ["no records"]),
    "empty file": ("", (), ["is empty", "header"]),
    "unreadable file": (b"\xff\x00\x01\n", (), ["UTF-8", "--encoding"]),
    "k too large": (None, ("-k", "9"), ["k is 9", "3 features", "from 1 to 3"]),
    "k zero": (None, ("-k", "0"), ["k is 0", "from 1 to 3"]),
    "epsilon zero": (None, ("--epsilon", "0"), ["epsilon is 0", "above 0"]),
    "epsilon negative": (None, ("--epsilon", "-1"), ["epsilon is -1", "above 0"]),
    "epsilon infinite": (None, ("--epsilon", "inf"), ["epsilon is inf", "finite"]),
    "delta one": (None, ("--delta", "1"), ["delta is 1", "below 1"]),
    "delta negative": (None, ("--delta", "-1e-6"), ["delta is -1e-06", "at least 0"]),
    "epsilon no number": (None, ("--epsilon", "much"), ["--epsilon", "valid"]),
    "select share": (
        None,
        ("--schema", "bounded.toml", "--regressor", "average", "--select-share", "1.5"),
        ["select_share is 1.5", "below 1"],
    ),
    "delta 0 with a part that needs delta": (
        None,
        ("--schema", "bounded.toml", "--regressor", "average", "--delta", "0"),
        ["average", "--delta"],
    ),
    "bounds that a part needs": (None, ("--regressor", "average"), ["average", "lower and upper"]),
    "unknown scorer": (None, ("--scorer", "larg"), ["'larg'", "Did you mean 'large'?"]),
    "selector without scorer": (None, ("--selector", "best"), ["best has no scores", "add a scorer"]),
    "unknown option": (None, ("--set", "scorer.size=3"), ["no option 'size'", "threshold"]),
    "bad option value": (None, ("--set", "scorer.threshold=-1"), ["threshold is -1", "above 0"]),
    "option of an absent part": (None, ("--set", "regressor.refuse=true"), ["regressor", "not part of"]),
    "setting without value": (None, ("--set", "scorer.threshold"), ["scorer.threshold", "ROLE.OPTION=VALUE"]),
    "setting twice": (None, ("--set", "scorer.a=1", "--set", "scorer.a=2"), ["scorer.a twice"]),
    "k twice": (None, ("-k", "2", "--set", "selector.k=3"), ["-k is 2", "selector.k is 3"]),
    "k no number": (None, ("--set", "selector.k=all"), ["selector.k is 'all'", "whole number"]),
    "features unknown": (None, ("--features", "a,zz"), ["'zz'", "'a', 'b', 'c', 'y'"]),
    "features with target": (None, ("--features", "a,y"), ["'y' is the target", "--features"]),
    "features twice": (None, ("--features", "a,b,a"), ["'a' twice"]),
    "features twice, apart": (None, ("--features", "a,b", "--features", "a"), ["'a' twice"]),
    "features empty": (None, ("--features", "a,,b"), ["--features", "commas"]),
    "schema of another table": (None, ("--schema", "facts.toml"), ["'price'", "'a', 'b', 'c', 'y'"]),
    "a plan for another table": (None, ("--schema", "facts.toml", "--dry-run"), ["'price'", "'b', 'c', 'y'"]),
    "semicolons": ("a;b;y\n1,5;2;3\n", (), ["semicolons", "--delimiter ';'"]),
    "decimal commas": (NUMBERS + '"0,1",0.2,0.3,0.4\n', (), ["not a number", "--decimal"]),
    "epsilon of no use": (None, ("--epsilon", "1e308"), ["no noise is drawn"]),
    "a setting nested too deeply": (None, ("--set", f"scorer.a={'[' * 2000}"), ["nested too deeply"]),
    "schema missing": (None, ("--schema", "absent.toml"), ["absent.toml", "No such file"]),
    "schema no TOML": (None, ("--schema", "numbers.csv"), ["numbers.csv", "not valid TOML"]),
    "output folder missing": (None, ("--output", "nowhere/release.json"), ["no folder nowhere", "create it"]),
    "output is the table": (None, ("--output", "numbers.csv"), ["numbers.csv", "also an input"]),
    "output is the plan": (None, ("--output", "o", "--save", "o"), ["both o", "its own file"]),
    "output is a folder": (None, ("--output", "."), ["cannot write ."]),
}  # fmt: skip


# The other cases name the target y.
WITHOUT_TARGET = {"target not named", "schema of another table", "a plan for another table"}


@pytest.mark.first(4)
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_told_and_nothing_happens(dpkit, folder, case):
    table, arguments, words = CASES[case]
    (folder / "bounded.toml").write_text(
        'target = "y"\n[columns.a]\n[columns.b]\n[columns.c]\n[columns.y]\nlower = 0\nupper = 1\n'
    )
    if table is not None:
        (folder / "numbers.csv").write_bytes(table if isinstance(table, bytes) else table.encode())
    target = () if case in WITHOUT_TARGET else ("--target", "y")
    parts = () if "--selector" in arguments else SELECTION
    before = sorted(folder.iterdir())
    result = dpkit("compose", "numbers.csv", *target, *parts, *arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    message = " ".join(result.stderr.replace("│", " ").split())
    for word in words:
        assert word in message
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert sorted(folder.iterdir()) == before


def test_every_column_of_text_is_named_at_once(dpkit, folder):
    pq.write_table(pa.table({"cut": ["Fair"], "carat": [1.0], "color": ["D"], "price": [1.0]}), "s.parquet")
    result = dpkit("compose", "s.parquet", "--target", "price", *SELECTION)
    assert result.exit_code == 2
    assert "holds text, not numbers, in 'cut', 'color'" in result.stderr


def test_a_date_that_is_not_written_as_the_schema_says_is_told_with_the_format(dpkit, folder):
    (folder / "days.csv").write_text("day,y\n2023-04-17,1\n", encoding="utf-8")
    facts = 'target = "y"\n[columns.day]\nkind = "date"\nformat = "%d.%m.%Y"\n[columns.y]\n'
    (folder / "days.schema.toml").write_text(facts, encoding="utf-8")
    result = dpkit("compose", "days.csv", "--regressor", "ols")
    assert result.exit_code == 2
    assert (
        "record 1: column 'day' holds something that is not a date in the format \"%d.%m.%Y\""
        in result.stderr
    )


def test_a_text_that_is_no_number_is_told_by_its_place_and_never_shown(dpkit, folder):
    shutil.copy("diamonds.csv", "stones.csv")  # which has no schema beside it
    result = dpkit("compose", "stones.csv", "--target", "price", *SELECTION)
    assert result.exit_code == 2
    assert "stones.csv, record 1: column 'cut' holds something that is not a number" in result.stderr
    assert "Fair" not in result.output


def test_a_missing_table_is_named(dpkit, folder):
    result = dpkit("compose", "absent.csv", "--target", "y", *SELECTION)
    assert result.exit_code == 2
    assert "cannot read absent.csv: No such file" in result.stderr


def test_a_command_without_data_says_what_would_do(dpkit, folder):
    result = dpkit("compose", *SELECTION, "--dry-run")
    assert result.exit_code == 2
    assert "DATA" in result.stderr
    assert "--schema" in result.stderr


@pytest.mark.parametrize("position", [0, -1])
def test_debug_shows_the_traceback_wherever_it_stands(dpkit, folder, position):
    arguments = ["compose", "absent.csv", "--target", "y"]
    arguments.insert(position if position == 0 else len(arguments), "--debug")
    result = dpkit(*arguments)
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "InvalidData" in result.stderr


def test_a_fault_of_dpkit_is_called_one_and_exits_with_1(dpkit, folder, monkeypatch):
    monkeypatch.setattr("dpkit_cli.request.open_source", lambda *arguments: 1 / 0)
    result = dpkit("compose", "numbers.csv", "--target", "y", *SELECTION)
    assert result.exit_code == 1
    assert "internal error (ZeroDivisionError" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_interrupt_exits_with_130(dpkit, folder, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpkit_cli.request.open_source", interrupt)
    assert dpkit("compose", "numbers.csv", "--target", "y", *SELECTION).exit_code == 130


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("https://example.org/table.parquet", "download it first"),
        ("a\0b.csv", "zero byte"),
        ("-/t.csv", "No such"),
    ],
)
def test_what_is_no_path_of_this_machine_is_told(dpkit, folder, path, said):
    result = dpkit("compose", path, "--target", "y", *SELECTION)
    assert result.exit_code == 2, result.output
    assert said in result.stderr

"""What pages say about the code is so: the picture is drawn from it, the paths and links exist."""

import csv
import importlib.util
import re
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"


def drawing(name: str = "architecture") -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("drawing", next(ROOT.glob(f"docs/{name}_picture*.py")))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", ["architecture", "pipeline", "kit", "engines"])
def test_a_picture_is_drawn_from_the_code(name: str) -> None:
    drawn = (ROOT / f"docs/{name}.svg").read_text(encoding="utf-8")
    assert drawn == drawing(name).picture(), f"run docs/{name}_picture.py"


@pytest.mark.parametrize("page", drawing("results").PICTURES)
def test_a_picture_of_results_shows_their_table(page: str) -> None:
    drawn = (ROOT / f"docs/results/{page}.svg").read_text(encoding="utf-8")
    assert drawn == drawing("results").picture(page), "run docs/results_pictures.py"


def test_the_page_of_speeds_shows_its_table() -> None:
    page = (ROOT / "docs/results/speed.md").read_text(encoding="utf-8").splitlines()
    with (ROOT / "docs/results/tables/speed.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            (shown,) = [each for each in page if each.startswith(f"| `{line['row']}` |")]
            assert f"| {line['goal']} | {line['reached']} | {line['bound']} |" in shown


@pytest.mark.parametrize("page", ["reference/kit.md", "results/unseen-lies.md"])
def test_pages_say_what_the_picture_of_the_kit_shows(page: str) -> None:
    *_, last = drawing("kit").rounds()
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert re.search(rf"!\[[^]]*\b{last.found} of {last.false}\b[^]]*\]\(\.\./kit\.svg\)", text)


def test_the_row_enters_each_room_once_and_by_an_import() -> None:
    picture = drawing()
    assert set(picture.entries()) < {room for floor in picture.floors() for room in floor}
    picture.WAY = (*picture.WAY, ("ledger.ledger", "paid for"))
    assert picture.entries()["ledger"] == ("ledger.ledger", "pipeline.runner")
    picture.WAY = (("pipeline.compose", ""), ("noise.sampler", "drawn by a command"))
    with pytest.raises(StopIteration):
        picture.entries()


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/versions.md", "CONTRIBUTING.md"])
def test_the_paths_of_a_page_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:dpkit_core|plugins|tests|docs|\.ci)/[\w./*-]*)`", text)
    assert paths
    for path in paths:
        assert list(ROOT.glob(path.rstrip("/"))) or "mine" in path, path


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_between_files_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", text):
        assert (ROOT / target).exists(), target


def test_every_room_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for floor in drawing().floors():
        for room in floor:
            assert f"`{room}`" in text, room

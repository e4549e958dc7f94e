"""What the README says about utility is what a page of results says, which names the command that made it."""

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows(text: str) -> list[tuple[str, str]]:
    """Return the rows of the table of pipelines: what is fitted, and its R^2."""
    return re.findall(r"^\| (.*\S) \| (\**\d\.\d{3}\**) \|$", text, re.MULTILINE)


def test_the_readme_has_the_table_of_the_results() -> None:
    stated = rows((ROOT / "README.md").read_text(encoding="utf-8"))
    shown = rows((ROOT / "docs/results/index.md").read_text(encoding="utf-8"))
    made = runpy.run_path(str(ROOT / "docs/results/diamonds.py"))
    assert stated == shown
    assert [what for what, _ in stated] == list(made["PIPELINES"])

"""A public class has a name of its own, so that a sentence about it means one thing."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [*ROOT.glob("dpkit_core/**/*.py"), *ROOT.glob("plugins/*/*/dpkit_*/**/*.py")]

#: Names that still mean two things. None is added; one that is resolved is taken out.
SHARED = {
    "Block",
    "Lines",
    "Pair",
    "Request",
    "Witness",
}


def test_no_two_public_classes_have_one_name() -> None:
    homes = defaultdict(set)
    for path in SOURCES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(str(path.relative_to(ROOT)))
    several = {name: paths for name, paths in homes.items() if len(paths) > 1}
    assert several.keys() == SHARED, several

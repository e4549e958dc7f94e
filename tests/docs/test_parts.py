"""What the README says about the installed parts is what their distributions say."""

import re
from pathlib import Path

from dpkit_core.plugins.registry import Registry

README = Path(__file__).parents[2] / "README.md"


def test_the_table_of_parts_lists_every_installed_part() -> None:
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| (.*) \|$", README.read_text(encoding="utf-8"), re.MULTILINE)
    own = [ref for ref in Registry().refs() if ref.distribution.startswith("dpkit-")]
    assert rows == [(ref.role, ref.name, ref.summary) for ref in own]

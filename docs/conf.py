"""Sphinx settings. Lists of parts and commands, and what each module is for, are read from the code."""

import importlib
import importlib.metadata
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from dpkit_cli.app import app as cli
from dpkit_cli.installed import InstalledCommands
from sphinx.application import Sphinx
from typer.testing import CliRunner

from dpkit_core.plugins.kinds import KINDS
from dpkit_core.plugins.registry import Registry
from dpkit_core.plugins.resources import resources

project = "dpkit"
author = "the dpkit authors"
copyright = "the dpkit authors"
release = version = importlib.metadata.version("dpkit")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build", "data"]
html_theme = "furo"
html_title = "dpkit"

nitpicky = True
# The inventories of other projects need a network, and a build must not.
nitpick_ignore = [
    ("py:class", "dpkit_model_trees.importances.Importance"),  # documented by their shorter names
    ("py:class", "dpkit_model_trees.importances.Noise"),
    ("py:class", "AbstractContextManager"),  # of what a meter gives
    ("py:class", "Event"),  # events that hold events name the union before it exists
    ("py:class", "Fraction"),
    ("py:class", "Path"),
    # What `compose` puts into a plan, and what runs it: nobody else makes either.
    ("py:class", "dpkit_core.pipeline.parts.Assembly"),
    ("py:class", "Assembly"),
    ("py:class", "dpkit_core.pipeline.evaluate.PlannedEvaluation"),
    # What a federation hands to the meter of each party.
    ("py:class", "dpkit_core.noise.joint.Joint"),
    # Hashes of records: an alias of arrays of whole numbers.
    ("py:class", "Hashes"),
    # Keys and graphs of libraries that are extras.
    ("py:class", "Ed25519PrivateKey"),
    ("py:class", "Ed25519PublicKey"),
    ("py:class", "ModelProto"),
    # The types of a part, and of the settings of its plan.
    ("py:class", "dpkit_core.pipeline.parts.C_co"),
    ("py:class", "dpkit_core.protocols.S"),
    # What is kept of records is whatever a part likes.
    ("py:class", "dpkit_core.data.sums.State"),
    ("py:obj", "dpkit_core.data.sums.State"),
    ("py:class", "dpkit_core.data.dataset.Members"),
    ("py:class", "State"),
    # What a forecast and a tree are told or made of, without a page of their own.
    ("py:class", "dpkit_core.pipeline.forecasts.StageForecast"),
    ("py:class", "Outcome"),  # a literal
    ("py:class", "Split"),
    # What tests lines behind intervals, and what watches a part's code, likewise.
    ("py:class", "Solution"),
    ("py:class", "dpkit_check.reading.Watch"),
    ("py:class", "dpkit_check.fresh.Fresh"),
]
nitpick_ignore_regex = [
    (
        r"py:.*",
        r"(attrs?|collections|contextlib|cryptography|datetime|fractions|hypothesis|importlib|np|npt|numpy|pa|pathlib|pluggy|pyarrow|sklearn|sparse|typer|types|typing)\..*",
    ),
]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
# Attribute lists such as "epsilon, delta" are plain lists, not types to be linked.
napoleon_custom_sections = [("Attributes", "params_style")]


def parts_table() -> str:
    """Return a Markdown table of the installed parts."""
    rows = [
        f"| {ref.role} | `{ref.name}` | {ref.summary} | `{ref.distribution}` {ref.version} |"
        for ref in Registry().refs()
    ]
    return "\n".join(["| kind | name | what it is | distribution |", "|---|---|---|---|", *rows])


def plugins_table() -> str:
    """Return a Markdown table of the installed distributions that offer something to dpkit."""
    offered: dict[str, list[str]] = {}
    for kind in KINDS:
        for ref in resources(kind.name) if kind.name != "report" else ():
            offered.setdefault(ref.distribution, []).append(f"{kind.name} `{ref.name}`")
    offered.setdefault("dpkit-sklearn", []).append("estimators, imported as `dpkit_sklearn`")
    rows = [
        f"| `{name}` | {importlib.metadata.metadata(name)['Summary']} | {', '.join(what)} |"
        for name, what in sorted(offered.items())
    ]
    return "\n".join(["| distribution | what it is | offers |", "|---|---|---|", *rows])


def proofs() -> str:
    """Return where the argument for each installed part is, and the text of the parts' own, as Markdown."""
    registry = Registry()
    parts = [(ref, registry.load(ref)) for ref in registry.refs()]
    rows = [f"| {ref.role} | `{ref.name}` | {part.proof} | {part.reference} |" for ref, part in parts]
    # "place (what), place; citations": see the test of this page.
    named = [re.findall(r"dpkit_[\w.]+", part.proof.partition(";")[0]) for _, part in parts]
    shared = ("dpkit_core.", "dpkit_fences.")  # shown with the protocols of parts
    own = dict.fromkeys(place for places in named for place in places if not place.startswith(shared))
    kinds = {place: "autoclass" if place.rpartition(".")[2][0].isupper() else "automodule" for place in own}
    texts = [f"```{{eval-rst}}\n.. {kind}:: {place}\n```" for place, kind in kinds.items()]
    header = ["| kind | name | argument | method |", "|---|---|---|---|"]
    return "\n".join([*header, *rows, "", *texts])


def commands() -> str:
    """Return the help of every command as Markdown."""
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"})
    sections = []
    for name in InstalledCommands().names():
        shown = runner.invoke(cli, [name, "--help"], prog_name="dpkit").stdout.strip()
        sections.append(f"## dpkit {name}\n\n```text\n{shown}\n```\n")
    return "\n".join(sections)


def falsehoods() -> str:
    """Return the published falsehoods of the zoo as a Markdown table."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    return "\n".join(
        [
            "| bug | published in | caught by | samples |",
            "|---|---|---|---|",
            *importlib.import_module("zoo.published").table(),
        ]
    )


myst_enable_extensions = ["deflist", "dollarmath", "substitution"]
sys.path.insert(0, str(Path(__file__).parent))
notebook = __import__("notebook_page").page()
myst_substitutions = {
    "notebook": notebook,
    "commands": commands(),
    "parts_table": parts_table(),
    "plugins_table": plugins_table(),
    "proofs": proofs(),
    "falsehoods": falsehoods(),
}


def describe_modules(app: Sphinx, page: str, source: list[str]) -> None:
    """Make the lists of public modules tables, with the first sentence of each docstring."""
    if page == "reference/python":
        source[0] = re.sub(r"(?:^- `dpkit_[\w.]+`\n)+", _table_of_modules, source[0], flags=re.MULTILINE)


def _table_of_modules(listed: re.Match[str]) -> str:
    rows = ["| module | what it is |", "|---|---|"]
    for name in re.findall("`(.+)`", listed[0]):
        docstring = inspect.getdoc(importlib.import_module(name)) or ""
        sentence = " ".join(docstring.split("\n\n")[0].split()).removesuffix(".")
        rows.append(f"| `{name}` | {sentence.replace('``', '`')} |")
    return "\n".join([*rows, ""])


def keep_prose(app: Sphinx, what: str, *event: Any) -> None:
    """Let docstrings mean what they say to a reader, where the tools would see markup.

    ``|x|`` is an absolute value and no substitution; a colon in the sentence about a property ends no type.
    """
    lines: list[str] = event[-1]
    lines[:] = [re.sub(r"\|(\S[^|]*)\|", r"\|\1\|", line) for line in lines]
    if what in {"property", "data"} and lines and ": " in lines[0]:
        lines[0] = f": {lines[0]}"  # napoleon splits "type: text" once, here after an empty type


def setup(app: Sphinx) -> None:
    """Connect the hooks above, the second before napoleon's own."""
    app.connect("source-read", describe_modules)
    app.connect("autodoc-process-docstring", keep_prose, priority=400)

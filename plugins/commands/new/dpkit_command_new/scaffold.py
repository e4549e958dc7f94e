"""A new distribution with one part, source or command: complete, working, and simple enough to change.

The files of each kind are templates in ``templates``, in the syntax of ``string.Template``. They contain a
correct part with a proof, so that its author starts from claims that the kit confirms and changes one thing
at a time. The parts that come with dpkit have the same files.
"""

from __future__ import annotations

import importlib.resources
import keyword
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from string import Template

import attrs
from dpkit_cli.installed import OWN

from dpkit_command_new.checkout import Member, members, registration
from dpkit_core.errors import InvalidOption, UnknownName
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.plugins.registry import Registry, first_party_names
from dpkit_core.plugins.resources import resources

# Role -> what the template does, and which libraries its module imports.
_METHODS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "scorer": ("Covariance with the target within public bounds", ("attrs", "numpy")),
    "selector": ("The exponential mechanism, once for each pick", ("attrs",)),
    "accountant": ("Sums of the epsilons of pure events", ("attrs",)),
    "source": ("Lines with bars between their fields", ("attrs", "pyarrow")),
    "regressor": ("Least squares from noisy sums within public bounds", ("attrs", "numpy")),
    "command": ("Which releases spent more than an epsilon", ("dpkit-cli", "typer")),
}
# Path in a standalone folder -> template: files that the checkout of dpkit has once for all its plugins.
_ALONE: Mapping[str, str] = {
    "LICENSE": "LICENSE",
    ".gitignore": "gitignore",
    ".github/workflows/test.yml": "test.yml",
    ".github/workflows/publish.yml": "publish.yml",
}

#: The address of the source of a new distribution, until its author gives the real one.
PLACEHOLDER = "https://example.com"

_PUBLISHING = """\
license-files = ["LICENSE"]
keywords = ["differential privacy", "dpkit", "{role}"]
classifiers = [
    "Development Status :: 3 - Alpha",
    "Intended Audience :: Science/Research",
    "Programming Language :: Python :: 3",
    "Topic :: Scientific/Engineering",
    "Typing :: Typed",
]
"""
_ADDRESSES = """
[project.urls]
Source = "{placeholder}/{distribution}"
Issues = "{placeholder}/{distribution}/issues"
"""
_CHECK = "      - run: dpkit check {name} --kind {role}\n"
_FLOORS = {
    "attrs": "attrs>=23.1",
    "dpkit-cli": "dpkit-cli>=0.1",
    "numpy": "numpy>=2.0",
    "pyarrow": "pyarrow>=18",
    "typer": "typer>=0.20",
}

#: What ``dpkit new`` writes: a part of any kind, a source or a command.
ROLES = (*PARTS, "source", "command")


@attrs.frozen
class Blueprint:
    """Names of a new distribution, all derived from the role and the name of its part.

    >>> blueprint = Blueprint("scorer", "mutual_information")
    >>> blueprint.distribution, blueprint.package, blueprint.class_name
    ('dpkit-scorer-mutual-information', 'dpkit_scorer_mutual_information', 'MutualInformationScorer')
    """

    role: str
    name: str

    @property
    def kind(self) -> str:
        """The role in the plural."""
        return f"{self.role}s"

    @property
    def distribution(self) -> str:
        """The name for installers."""
        return f"dpkit-{self.role}-{self.name}".replace("_", "-")

    @property
    def package(self) -> str:
        """What Python imports."""
        return f"dpkit_{self.role}_{self.name}"

    @property
    def public(self) -> str:
        """What its module is for: the class of a part, the function of a command or that opens a source."""
        # None has the name of what the module imports or calls, such as json or print.
        functions = {"source": f"open_{self.name}", "command": f"run_{self.name}"}
        return functions.get(self.role, self.class_name)

    @property
    def target(self) -> str:
        """What the entry point names: for a command its module, since lists read docstrings as text."""
        module = f"{self.package}.{self.name}" if self.role == "command" else self.package
        return f"{module}:{self.public}"

    @property
    def entry(self) -> str:
        """The name by which dpkit finds it; for a source, the suffix of its files."""
        return f".{self.name}" if self.role == "source" else self.name

    @property
    def folder(self) -> str:
        """Its folder in a checkout of dpkit."""
        return f"plugins/{self.kind}/{self.name}"

    @property
    def class_name(self) -> str:
        """The class of the part."""
        return "".join(word.capitalize() for word in (*self.name.split("_"), self.role))

    def files(self, *, alone: bool = False) -> dict[str, str]:
        """Return the text of every file by its path in the new folder.

        Parameters
        ----------
        alone
            Whether it will be a repository of its own, with license, addresses and workflows.
        """
        more = {path: self._filled(template) for path, template in _ALONE.items()} if alone else {}
        return {
            **more,
            "pyproject.toml": self._filled("pyproject.toml", alone=alone),
            "README.md": self._filled(f"{self.role}/README.md", alone=alone),
            f"{self.package}/__init__.py": self._filled(
                "command/__init__.py" if self.role == "command" else "__init__.py"
            ),
            f"{self.package}/{self.name}.py": self._filled(f"{self.role}/module.py"),
            f"{self.package}/py.typed": "",
            f"tests/test_{self.name}.py": self._filled(f"{self.role}/test.py"),
        }

    @property
    def summary(self) -> str:
        """A description of what the template does."""
        return _METHODS[self.role][0]

    def _filled(self, template: str, *, alone: bool = False) -> str:
        summary, libraries = _METHODS[self.role]
        addresses = _ADDRESSES.format(placeholder=PLACEHOLDER, distribution=self.distribution)
        dependencies = ["dpkit>=0.1", *(_FLOORS[library] for library in libraries)]
        text = importlib.resources.files(__package__).joinpath(f"templates/{template}.template")
        return Template(text.read_text(encoding="utf-8")).substitute(
            role=self.role,
            kind=self.kind,
            name=self.name,
            distribution=self.distribution,
            package=self.package,
            class_name=self.class_name,
            public=self.public,
            target=self.target,
            entry=f'"{self.entry}"' if self.role == "source" else self.entry,
            check=_CHECK.format(name=self.name, role=self.role) if self.role in PARTS else "",
            summary=summary,
            install=f"pip install {self.distribution}" if alone else f"uv pip install CLONE/{self.folder}",
            publishing=_PUBLISHING.format(role=self.role) if alone else "",
            addresses=addresses if alone else "",
            dependencies=", ".join(f'"{dependency}"' for dependency in dependencies),
        )


def blueprint(kind: str, name: str) -> Blueprint:
    """Return the blueprint of a new distribution.

    Raises
    ------
    InvalidOption
        If ``name`` is not a valid module name, or is taken by what is installed or comes with dpkit.
    UnknownName
        If there is no such kind.
    """
    role = kind.removesuffix("s")
    if role not in ROLES:
        raise UnknownName(f"there is no kind {kind!r}; `dpkit new` writes {', '.join(ROLES)}")
    kind = f"{role}s"
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise InvalidOption(
            f"{name!r} cannot name a {role}; use lower-case letters and digits, starting with a letter, with "
            "single underscores between words, such as mutual_information"
        )
    if keyword.iskeyword(name):
        raise InvalidOption(f"{name!r} is a Python keyword, which cannot name a module; choose another name")
    own = Blueprint(role, name)
    for ref in Registry().refs(kind) if role in PARTS else resources(kind):
        if ref.name == own.entry:
            raise InvalidOption(f"{ref} is installed already; choose another name, or uninstall it")
    if name in (OWN if role == "command" else first_party_names(kind)):
        raise InvalidOption(f"{role} {name!r} comes with dpkit; choose another name")
    return own


def join(blueprint: Blueprint, checkout: Path) -> Path:
    """Write the distribution among the plugins of a checkout and register it; return its folder there.

    Raises
    ------
    InvalidOption
        If the folder exists, or there is no place to register it.
    """
    own = Member.read(blueprint.kind, blueprint.files()["pyproject.toml"])
    texts = registration(checkout, [*members(checkout), own])
    member = Path(blueprint.folder)
    write(blueprint, checkout / member, stage=checkout)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return member


def write(blueprint: Blueprint, folder: Path, stage: Path | None = None, *, alone: bool = False) -> None:
    """Write the distribution as ``folder``, completely or not at all.

    Parameters
    ----------
    blueprint
        What to write.
    folder
        A path that does not exist yet.
    stage
        An existing folder of the same file system in which the files are gathered, the new folder's parent by
        default. In a uv workspace it must lie outside the members: uv refuses every command while one of
        them lacks its pyproject.toml.
    alone
        Whether it is a repository of its own, with license, addresses and workflows.

    Raises
    ------
    InvalidOption
        If ``folder`` exists.
    """
    if folder.exists():
        raise InvalidOption(f"{folder} exists; choose another name or --directory, or remove it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".dpkit-new-", dir=stage or folder.parent) as temporary:
        gathered = Path(temporary) / blueprint.distribution
        for path, text in blueprint.files(alone=alone).items():
            file = gathered / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        gathered.rename(folder)

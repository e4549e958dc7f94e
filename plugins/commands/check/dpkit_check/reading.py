"""Reads the code of a part while it runs: what ran, which way each condition went, and what it compared.

Lines are too coarse for this: most false claims sit inside of one, in ``x if k > c else y``, ``min(r, c)`` or
``column == c`` on an array; and what leads to the other side of a condition is what it compared, which no
tracer gives. So the source is parsed, hooks are put around conditions, and the functions get the code of the
rewritten source for as long as they are watched. Functions, classes and modules stay the objects that they
are, and what each expression returns stays what it was.
"""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
import math
import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import attrs
import numpy as np

Way = Literal["block", "truth", "compare", "cap", "text"]

#: A line that the kit cannot reach says so, with a reason.
UNREACHABLE = "# kit: unreachable, "

# Longer texts are messages.
_WORD = 30

_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_OPERATORS = tuple(_COMPARED)
_CAPS = ("min", "max", "np.clip", "np.minimum", "np.maximum")


@attrs.define(eq=False)
class Site:
    """One place in the code that can be reached, or that goes two ways.

    Attributes
    ----------
    file, line, end
        Where it is; a block ends at ``end``.
    way
        What it is: a block of statements, a truth value, a comparison, a cap, or the test of a text.
    text
        The source of the condition; of a block, the one in front of it.
    owners
        Name and first line of each function around it.
    core
        Whether it belongs to dpkit's own mechanisms, which the part calls.
    sides
        Those that were seen: True and False.
    words
        The last few that were compared before both sides were seen.
    least, most
        Of the numbers that were.
    """

    file: Path
    line: int
    end: int
    way: Way
    text: str
    owners: tuple[tuple[str, int], ...]
    core: bool = False
    sides: set[bool] = attrs.field(factory=set)
    words: deque[str] = attrs.field(factory=lambda: deque(maxlen=6))
    least: float = math.inf
    most: float = -math.inf

    @property
    def wanted(self) -> frozenset[bool]:
        """The sides that there are."""
        return frozenset({True} if self.way == "block" else {True, False})

    def note(self, one: Any) -> None:
        """Keep what was compared."""
        small = one if type(one) is float or type(one) is int else _small(one)  # most are
        if isinstance(small, str):
            self.words.append(small)
        elif small is not None and not self.least <= small <= self.most:
            self.least, self.most = min(self.least, small), max(self.most, small)


@attrs.frozen
class Unreached:
    """Code that no attack reached, and what stood before it.

    Attributes
    ----------
    file, line, end
        Where it is.
    needs
        The condition in front of it.
    seen
        What the condition was given instead; empty if it was never asked.
    """

    file: str
    line: int
    end: int
    needs: str
    seen: str

    def __str__(self) -> str:
        lines = f"{self.line}-{self.end}" if self.end > self.line else f"{self.line}"
        seen = f", {self.seen}" if self.seen else ""
        return f"{Path(self.file).name}:{lines} needs {self.needs}{seen}"


@attrs.frozen
class Reach:
    """How much of the code was reached.

    Attributes
    ----------
    blocks, sides
        Reached, and in all: blocks of statements, and sides of conditions.
    unreached
        What was not.
    core
        Blocks of dpkit's own mechanisms that the part calls: reached, and in all. They lead the search.
    not_read
        Functions that are not watched, with the reason: they are compiled, or their file was edited after
        they were imported, so that it tells of other code than what runs.
    """

    blocks: tuple[int, int] = (0, 0)
    sides: tuple[int, int] = (0, 0)
    unreached: tuple[Unreached, ...] = ()
    core: tuple[int, int] = (0, 0)
    not_read: tuple[str, ...] = ()


class Watch:
    """Watches functions: ``with Watch(functions) as watch: ...``; may be entered again inside.

    Parameters
    ----------
    functions
        Those of the part.
    """

    _numbers = itertools.count()
    #: The code with which each function that is watched just now was imported.
    _imported: ClassVar[dict[types.FunctionType, types.CodeType]] = {}

    def __init__(self, functions: Iterable[types.FunctionType]) -> None:
        self.sites: list[Site] = []
        self.changes = 0
        self._tag = f"_dpkit_watch_{next(Watch._numbers)}"
        self._depth = 0
        self._codes: list[tuple[types.FunctionType, types.CodeType, types.CodeType]] = []
        self._read_lines: list[tuple[str, frozenset[int]]] = []
        self._first: list[types.FunctionType] = []
        self._unread: list[types.FunctionType] = []
        self._lines: dict[Path, tuple[str, ...]] = {}
        not_read: list[str] = []
        by_file: dict[str, list[types.FunctionType]] = {}
        for function in functions:
            by_file.setdefault(_imported(function).co_filename, []).append(function)
        for file, those in by_file.items():
            for function, reason in self._read(Path(file), those):
                if _is_core(function):
                    continue
                self._unread.append(function)
                not_read.append(f"{function.__qualname__}: {reason}")
        self.not_read = tuple(sorted(not_read))
        self.hits = bytearray(len(self.sites))

    def _read(
        self, file: Path, functions: Sequence[types.FunctionType]
    ) -> Iterator[tuple[types.FunctionType, str]]:
        """Keep the functions of a file with their code with hooks; yield those that cannot be, and why."""
        source = _source(str(file))
        lines = {_imported(function).co_firstlineno for function in functions}
        try:
            source = source and _holding(lines, source)
            tree = ast.parse(source or "")
        except SyntaxError:
            source = None
        if source is None:
            yield from ((function, f"{file.name} cannot be read") for function in functions)
            return
        self._lines[file] = tuple(source.splitlines()) or ("",)
        rewriter = _Rewriter(self, file, source, self._tag)
        # The same flags as those of an import, so that code of the same source is the same.
        compiled = functools.partial(compile, filename=str(file), mode="exec", dont_inherit=True)
        plain = _by_key(compiled(tree))
        new = _by_key(compiled(ast.fix_missing_locations(rewriter.visit(tree))))
        read: set[tuple[str, int]] = set()
        for function in functions:
            code = _imported(function)
            key = _key(code)
            written, rewritten = plain.get(key, []), new.get(key, [])
            places = [i for i, one in enumerate(written) if _same_code(one, code)]
            if key in rewriter.compiled:
                if not self._excused(file, key[1]):
                    yield function, "it is compiled"
            elif not places:
                yield function, f"{file.name} is not what was imported"
            elif len(written) != len(rewritten):
                yield function, "others of its name stand in its line"
            else:
                self._codes.append((function, function.__code__, rewritten[places[0]]))
                read.add(key)
        core = any(_is_core(function) for function in functions)
        rewriter.keep(read, core=core)
        if not core:  # constants of the mechanisms are those of all parts
            self._read_lines.append((source, frozenset(line for _, line in read)))

    def __enter__(self) -> Self:
        if not self._depth:
            setattr(builtins, self._tag, self)
            self._first = [f for f, _, _ in self._codes if f not in Watch._imported]
            Watch._imported.update((f, f.__code__) for f in self._first)
            for function, _, new in self._codes:
                function.__code__ = new
        self._depth += 1
        return self

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if not self._depth:
            for function, old, _ in self._codes:
                function.__code__ = old
            for function in self._first:
                del Watch._imported[function]
            delattr(builtins, self._tag)

    def _see(self, site: Site, side: bool) -> None:
        if side not in site.sides:
            site.sides.add(side)
            self.changes += 1

    def _look(self, site: Site, truths: Any) -> None:
        """Note the sides of one truth, or of many, that were not seen before."""
        if isinstance(truths, bool):
            if truths not in site.sides:
                self._see(site, truths)
        else:
            if True not in site.sides and truths.any():
                self._see(site, True)
            if False not in site.sides and not truths.all():
                self._see(site, False)

    def compare(self, number: int, which: int, one: Any, other: Any) -> Any:
        """Return the comparison; of arrays, both sides are seen if some entries are and some are not."""
        result = _COMPARED[_OPERATORS[which]](one, other)
        site = self.sites[number]
        if len(site.sides) == 2:  # all there are, and looking takes longer than comparing
            return result
        if result is True or result is False:
            if result not in site.sides:
                self._see(site, result)
        else:
            try:
                self._look(site, result if isinstance(result, np.ndarray) else bool(result))
            except (TypeError, ValueError):
                return result
        site.note(one)
        return result

    def truth(self, number: int, value: Any) -> Any:
        """Return the value, and note whether it is true."""
        sides = self.sites[number].sides
        if value in sides if value is True or value is False else len(sides) == 2:
            return value
        with suppress(TypeError, ValueError):  # an array at the end of ``a or b`` is none
            self._see(self.sites[number], bool(value))
        return value

    def cap(self, number: int, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return what a cap returns, and note whether it binds."""
        result = function(*args, **options)
        site = self.sites[number]
        if len(site.sides) == 2:
            return result
        try:
            changed = result != args[0]
            changed = changed if isinstance(changed, bool) else np.asarray(changed)
        except (TypeError, ValueError):
            return result
        if isinstance(changed, bool) or changed.dtype == np.bool_:
            self._look(site, changed)
            site.note(args[0])
        return result

    def text(self, number: int, owner: Any, name: str, argument: Any) -> Any:
        """Return the test of a text."""
        result = getattr(owner, name)(argument)
        site = self.sites[number]
        self._see(site, bool(result))
        site.note(owner)
        return result

    @property
    def mark(self) -> int:
        """How much was reached so far."""
        return self.changes + sum(self.hits)

    def absorb(self, other: Watch) -> None:
        """Add what another watch of the same code has seen."""
        for number, (mine, its) in enumerate(zip(self.sites, other.sites, strict=True)):
            self.hits[number] |= other.hits[number]
            mine.sides |= its.sides
            mine.words.extend(its.words)
            mine.least, mine.most = min(mine.least, its.least), max(mine.most, its.most)

    def reach(self) -> Reach:
        """Return what was reached so far, and what was not."""
        for number, site in enumerate(self.sites):
            if self.hits[number]:
                site.sides.add(True)
        blocks = [site for site in self.sites if site.way == "block" and not site.core]
        core = [site for site in self.sites if site.way == "block" and site.core]
        ways = [site for site in self.sites if site.way in {"truth", "compare", "text"} and not site.core]
        return Reach(
            (sum(map(len, (site.sides for site in blocks))), len(blocks)),
            (sum(len(site.sides) for site in ways), 2 * len(ways)),
            tuple(self._unreached()),
            (sum(bool(site.sides) for site in core), len(core)),
            self.not_read,
        )

    def _unreached(self) -> Iterator[Unreached]:
        """Yield the outermost blocks that never ran, and conditions inside of a line that went one way."""
        conditions = {(site.file, site.line, site.text): site for site in self.sites if site.way != "block"}
        dark: dict[Path, list[tuple[int, int]]] = {}
        for site in self.sites:
            if site.core or site.way != "block" or site.sides:
                continue
            if any(begin <= site.line and site.end <= end for begin, end in dark.get(site.file, ())):
                continue
            dark.setdefault(site.file, []).append((site.line, site.end))
            # A function says it where its definition begins, too.
            first = site.owners[-1][1] if not site.text else site.line
            if any(self._excused(site.file, line) for line in range(first, site.line + 1)):
                continue
            before = [
                one
                for (file, line, text), one in conditions.items()
                if file == site.file and text and text in site.text and 0 <= site.line - line <= _NEAR
            ]
            seen = next((words for one in before if (words := _seen(one))), "")
            yield Unreached(
                str(site.file), site.line, site.end, site.text or f"a call of {site.owners[-1][0]}", seen
            )
        for site in self.sites:
            lit = not any(b <= site.line <= e for b, e in dark.get(site.file, ()))
            if site.way in {"compare", "text", "truth"} and len(site.sides) == 1 and lit and not site.core:
                # A statement has blocks, which tell; what is left is inside of a line.
                following = any(
                    b.way == "block" and b.file == site.file and 0 < b.line - site.line <= _NEAR
                    and site.text in b.text and not b.sides for b in self.sites
                )  # fmt: skip
                if following or self._excused(site.file, site.line) or not self._inline(site):
                    continue
                always = next(iter(site.sides))
                needs = f"not ({site.text})" if always else site.text
                yield Unreached(str(site.file), site.line, site.line, needs, _seen(site))

    def _inline(self, site: Site) -> bool:
        """Return whether a condition is not that of a statement with a block of its own."""
        line = self._lines[site.file][site.line - 1].strip()
        return not line.startswith(("if ", "elif ", "while ", "assert ", "case "))

    def _excused(self, file: Path, line: int) -> bool:
        """Return whether a line, or the one before it, says why the kit cannot reach it."""
        lines = self._lines[file][max(0, line - 2) : line]
        return any(UNREACHABLE in line and line.split(UNREACHABLE)[1].strip() for line in lines)

    def constants(self) -> tuple[tuple[float, ...], tuple[str, ...]]:
        """Return the numbers and the words of the code watched, and of the constants that it names."""
        numbers: set[float] = set()
        words: set[str] = set()
        for source, lines in self._read_lines:
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef) and _starts(node) in lines:
                    _mine(node, numbers, words)
        for function in self._unread:
            code = _imported(function)
            for one in (code, *_codes_in(code)):
                _keep(one.co_consts, numbers, words)
        for function, _, _ in self._codes:
            owner = sys.modules.get(function.__module__)
            if owner is None or function.__module__.startswith("dpkit_core"):
                continue
            for name in _imported(function).co_names:
                _keep(getattr(owner, name, None), numbers, words)
            for value in function.__defaults__ or ():
                _keep(value, numbers, words)
        return tuple(sorted(numbers)), tuple(sorted(words))


# Lines between a condition and the block that follows it.
_NEAR = 8


def _seen(site: Site) -> str:
    """Return what a condition was given, in words."""
    if math.isfinite(site.least):
        same = site.least == site.most
        return f"seen {site.least:g}" if same else f"seen {site.least:g} to {site.most:g}"
    words = list(dict.fromkeys(site.words))
    if words:
        return "seen " + ", ".join(words[:4])
    return f"always {next(iter(site.sides))}" if len(site.sides) == 1 else ""


def _small(value: Any) -> float | str | None:
    """Return a number or a text; the largest of an array; None of what cannot be compared."""
    match value:
        case bool() | int() | float() | str():
            return value
        case np.ndarray() if value.size and value.ndim and value.dtype.kind in "fiub":
            return float(value.max())
        case np.generic():
            return _small(value.item())
        case np.ndarray() if value.ndim == 0:
            return _small(value.item())
        case _:
            return None


def _source(file: str) -> str | None:
    # Not remembered: a part that is edited between two checks would be run as it was.
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


@functools.lru_cache(maxsize=64)
def _definitions(source: str) -> list[tuple[int, int]]:
    """Return the first and the last line of each function and class of a module."""
    return [
        (_starts(node), node.end_lineno or node.lineno)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]


def _holding(wanted: set[int], source: str) -> str:
    """Return a module without definitions that hold no line wanted, which take long to rewrite and compile.

    What it imports stays: Python compiles calls of imported modules in another way.
    """
    lines = source.split("\n")
    for first, last in _definitions(source):
        if not any(first <= line <= last for line in wanted):
            lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(lines)


def _key(code: types.CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _imported(function: types.FunctionType) -> types.CodeType:
    """Return the code with which a function was imported, also while another watch has exchanged it."""
    return Watch._imported.get(function, function.__code__)


def _by_key(code: types.CodeType) -> dict[tuple[str, int], list[types.CodeType]]:
    """Return name and first line -> the codes inside of one that have them: several for lambdas of a line."""
    found: dict[tuple[str, int], list[types.CodeType]] = {}
    for one in _codes_in(code):
        found.setdefault(_key(one), []).append(one)
    return found


def _same_code(one: types.CodeType, other: types.CodeType) -> bool:
    """Return whether two codes do the same.

    Not ``==``, which looks at caches that a run fills on Python 3.11, and at the names of files.
    """
    same = all(
        getattr(one, name) == getattr(other, name)
        for name in (
            "co_name",
            "co_code",
            "co_names",
            "co_varnames",
            "co_freevars",
            "co_cellvars",
            "co_flags",
        )
    )
    return (
        same
        and len(one.co_consts) == len(other.co_consts)
        and all(map(_same_constant, one.co_consts, other.co_consts))
    )


def _same_constant(one: Any, other: Any) -> bool:
    match one, other:
        case types.CodeType(), types.CodeType():
            return _same_code(one, other)
        case tuple(), tuple():
            return len(one) == len(other) and all(map(_same_constant, one, other))
        case frozenset(), frozenset():
            return one == other
        case _:  # 1, 1.0 and True are equal, and 0.0 is -0.0
            return type(one) is type(other) and repr(one) == repr(other)


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes_in(constant)


def _starts(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])


def _mine(tree: ast.AST, numbers: set[float], words: set[str]) -> None:
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.UnaryOp(ast.USub(), ast.Constant(value)):
                _keep(-value if isinstance(value, int | float) else None, numbers, words)
            case ast.BinOp(ast.Constant(int() | float() as one), op, ast.Constant(int() | float() as two)):
                _keep(_folded(op, one, two), numbers, words)
            case ast.Constant(value) if id(node) not in texts:
                _keep(value, numbers, words)


def _folded(op: ast.operator, one: float, two: float) -> float | None:
    folds: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
        ast.Pow: operator.pow,
        ast.Mult: operator.mul,
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Div: operator.truediv,
    }
    try:
        value = folds[type(op)](one, two)
    except (KeyError, ArithmeticError):
        return None
    return value if isinstance(value, int | float) else None


def _keep(value: Any, numbers: set[float], words: set[str]) -> None:
    match value:
        case bool():
            pass
        case int() | float() if -1e15 < value < 1e15:
            numbers.add(float(value))
        case str() if 0 < len(value) < _WORD and value.isprintable():
            words.add(value)
        case tuple() | frozenset() | list() if len(value) < _WORD:
            for one in value:
                _keep(one, numbers, words)


#: Code of the core that does the work of parts, and that of accountants: their calculations.
_MECHANISMS = ("dpkit_core.mechanisms",)
_CALCULATIONS = (
    "dpkit_core.privacy.accounts",
    "dpkit_core.privacy.composition",
    "dpkit_core.privacy.divergence_filters",
    "dpkit_core.privacy.filters",
    "dpkit_core.privacy.pairs",
    "dpkit_core.privacy.profiles",
    "dpkit_core.privacy.renyi",
    "dpkit_core.privacy.tight",
)


def watched(cls: type[Any]) -> Watch:
    """Return a watch of the code of a part: what its class names in its own package, and core mechanisms."""
    home = cls.__module__.partition(".")[0]
    core = _CALCULATIONS if callable(getattr(cls, "compose", None)) else _MECHANISMS
    homes = (home, *core) if home != "dpkit_core" else (home,)
    functions: dict[int, types.FunctionType] = {}
    done: set[int] = set()
    waiting: list[Any] = [cls]
    while waiting:
        thing = waiting.pop()
        if id(thing) in done:
            continue
        done.add(id(thing))
        if isinstance(thing, type):
            waiting += [base for base in thing.__mro__[1:] if _at_home(base, homes)]
            for member in vars(thing).values():
                waiting += _functions(member)
        elif isinstance(thing, types.FunctionType) and _at_home(thing, homes) and _written(thing):
            functions[id(thing)] = thing
            for value in _named(thing):
                if isinstance(value, types.ModuleType):
                    if _within(value.__name__, homes):
                        others = (getattr(value, other, None) for other in _imported(thing).co_names)
                        waiting += [other for other in others if _at_home(other, homes)]
                elif _at_home(value, homes):
                    waiting += [value] if isinstance(value, type) else _functions(value)
    return Watch(functions.values())


def _is_core(function: types.FunctionType) -> bool:
    return _within(function.__module__, (*_MECHANISMS, *_CALCULATIONS))


def _written(function: types.FunctionType) -> bool:
    """Return whether a function stands in the file of its module: others were made for it, as by attrs."""
    module = sys.modules.get(function.__module__)
    return getattr(module, "__file__", None) == _imported(function).co_filename


def _named(function: types.FunctionType) -> Iterator[Any]:
    """Yield the globals and the enclosed variables that the code of a function names, inner ones too."""
    names = {
        name for code in (_imported(function), *_codes_in(_imported(function))) for name in code.co_names
    }
    for name in sorted(names):
        if name in function.__globals__:
            yield function.__globals__[name]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            yield cell.cell_contents


def _at_home(thing: Any, homes: Sequence[str]) -> bool:
    return _within(str(getattr(thing, "__module__", "")), homes)


def _within(module: str, homes: Sequence[str]) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in homes)


def _functions(member: Any) -> list[types.FunctionType]:
    """Return the functions behind a member of a class: of methods, properties, and what wraps others."""
    match member:
        case types.FunctionType():
            inner = getattr(member, "__wrapped__", None)
            cells = [] if inner is None else _functions(inner)
            return [member, *cells]
        case staticmethod() | classmethod():
            return _functions(member.__func__)
        case property():
            return [f for part in (member.fget, member.fset) if part is not None for f in _functions(part)]
        case functools.cached_property():
            return _functions(member.func)
        case functools.partial():
            return _functions(member.func)
        case _:
            inner = getattr(member, "__wrapped__", None)
            return [] if inner is None or isinstance(member, type) else _functions(inner)


class _Rewriter(ast.NodeTransformer):
    """Puts hooks around conditions and at the heads of blocks."""

    def __init__(self, watch: Watch, file: Path, source: str, tag: str) -> None:
        self.watch, self.file, self.tag = watch, file, tag
        self.lines = source.encode().split(b"\n")
        self.names: list[str] = []
        self.compiled: set[tuple[str, int]] = set()
        self.owners: list[tuple[str, int]] = []
        self.first = len(watch.sites)

    def keep(self, wanted: set[tuple[str, int]], *, core: bool) -> None:
        """Forget what belongs to no function that is watched: it stays in its place, and wants nothing."""
        for site in self.watch.sites[self.first :]:
            site.core = core
            if not wanted.intersection(site.owners):
                site.way = "cap"  # counted nowhere
                site.text = ""

    def source(self, node: Any) -> str:
        """Return the source of a node, in one line."""
        first, last = node.lineno - 1, node.end_lineno - 1
        if first == last:
            return self.lines[first][node.col_offset : node.end_col_offset].decode()
        return ast.unparse(node)

    def site(self, node: Any, way: Way, text: str, end: int = 0) -> ast.Constant:
        """Return the number of a new site."""
        self.watch.sites.append(
            Site(self.file, node.lineno, end or node.end_lineno, way, text, tuple(self.owners))
        )
        return ast.Constant(len(self.watch.sites) - 1)

    def hook(self, name: str, *args: ast.expr, like: ast.AST) -> ast.Call:
        """Return the call of a hook."""
        owner = ast.Attribute(ast.Name(self.tag, ast.Load()), name, ast.Load())
        return ast.copy_location(ast.Call(owner, list(args), []), like)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Go through the members."""
        self.names.append(node.name)
        node.body = [self.visit(statement) for statement in node.body]
        self.names.pop()
        return node

    def visit_FunctionDef(self, node: Any) -> ast.AST:
        """Mark the body; compiled functions are left alone."""
        if any("jit" in ast.dump(decorator) for decorator in node.decorator_list):
            self.compiled.add((".".join([*self.names, node.name]), _starts(node)))
            return node
        self.names.append(node.name)
        self.owners.append((".".join(self.names), _starts(node)))
        self.names.append("<locals>")
        node.body = self.body(node.body, "")
        self.owners.pop()
        del self.names[-2:]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def body(self, statements: list[ast.stmt], why: str) -> list[ast.stmt]:
        """Return the statements of a block with a mark at their head, behind the documentation."""
        if not statements or not self.owners:
            return [self.visit(statement) for statement in statements]
        head: list[ast.stmt] = []
        if not why and isinstance(statements[0], ast.Expr) and isinstance(statements[0].value, ast.Constant):
            head, statements = statements[:1], statements[1:]
        if not statements:
            return head
        end = max(statement.end_lineno or statement.lineno for statement in statements)
        number = self.site(statements[0], "block", why, end)
        hits = ast.Attribute(ast.Name(self.tag, ast.Load()), "hits", ast.Load())
        # A call would take ten times as long.
        mark = ast.Assign([ast.Subscript(hits, number, ast.Store())], ast.Constant(1))
        return [
            *head,
            ast.copy_location(mark, statements[0]),
            *(self.visit(statement) for statement in statements),
        ]

    def test(self, node: ast.expr) -> ast.expr:
        """Return a condition with a hook, unless its parts have theirs."""
        text = self.source(node)
        if isinstance(node, ast.BoolOp):
            node.values = [self.test(value) for value in node.values]
            return node
        visited: ast.expr = self.visit(node)
        own = isinstance(node, ast.Compare) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        )
        own |= isinstance(node, ast.Call) and _tests_text(node)
        if own or not self.owners:
            return visited
        return self.hook("truth", self.site(node, "truth", text), visited, like=node)

    def visit_If(self, node: ast.If) -> ast.AST:
        """Mark both branches."""
        text = self.source(node.test)
        node.test = self.test(node.test)
        node.body = self.body(node.body, text)
        if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            node.orelse = [self.visit(node.orelse[0])]
        else:
            node.orelse = self.body(node.orelse, f"not ({text})")
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        """Mark the body."""
        text = self.source(node.test)
        node.test = self.test(node.test)
        node.body, node.orelse = self.body(node.body, text), self.body(node.orelse, f"not ({text})")
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        """Mark the body."""
        text = f"for ... in {self.source(node.iter)}"
        node.iter = self.visit(node.iter)
        node.body, node.orelse = self.body(node.body, text), self.body(node.orelse, "no break")
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        """Mark the handlers."""
        node.body = [self.visit(statement) for statement in node.body]
        for handler in node.handlers:
            what = ast.unparse(handler.type) if handler.type else "anything"
            handler.body = self.body(handler.body, f"an exception: {what}")
        node.orelse = self.body(node.orelse, "no exception")
        node.finalbody = [self.visit(statement) for statement in node.finalbody]
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        """Mark the cases."""
        node.subject = self.visit(node.subject)
        for case in node.cases:
            text = f"case {ast.unparse(case.pattern)}"
            if case.guard is not None:
                case.guard = self.test(case.guard)
            case.body = self.body(case.body, text)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Watch the condition."""
        node.test = self.test(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Watch every part but the last, which is no condition, such as the default in ``a or b``."""
        *before, last = node.values
        node.values = [*map(self.test, before), self.visit(last)]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Watch what is denied."""
        if isinstance(node.op, ast.Not):
            node.operand = self.test(node.operand)
            return node
        return self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Watch the conditions."""
        node.iter, node.ifs = self.visit(node.iter), [self.test(one) for one in node.ifs]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Watch both sides of the comparison; chains in which each operand is simple, link by link."""
        operands = [node.left, *node.comparators]
        simple = all(isinstance(o, ast.Name | ast.Constant | ast.Attribute) for o in operands[1:-1])
        if not self.owners or not simple:
            return self.generic_visit(node)
        text = self.source(node)
        links: list[ast.expr] = []
        for one, op, other in zip(operands, node.ops, operands[1:], strict=False):
            number = self.site(node, "compare", text)
            which = ast.Constant(_OPERATORS.index(type(op)))
            # A simple operand stands in two links; a hook may change neither.
            left, right = (
                self.visit(o) if o is operands[0] or o is operands[-1] else _again(o) for o in (one, other)
            )
            links.append(self.hook("compare", number, which, left, right, like=node))
        return links[0] if len(links) == 1 else ast.copy_location(ast.BoolOp(ast.And(), links), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Watch whether caps bind, and tests of texts."""
        if not self.owners:
            return self.generic_visit(node)
        name = ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
        plain = all(keyword.arg for keyword in node.keywords)
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if name in _CAPS and len(node.args) > 1 and plain and not starred:
            number = self.site(node, "cap", self.source(node))
            self.generic_visit(node)
            names: list[ast.expr | None] = [ast.Constant(keyword.arg) for keyword in node.keywords]
            options = ast.Dict(names, [keyword.value for keyword in node.keywords])
            return self.hook("cap", number, node.func, ast.Tuple(node.args, ast.Load()), options, like=node)
        if _tests_text(node):
            owner, method = node.func.value, ast.Constant(node.func.attr)  # type: ignore[attr-defined]
            number = self.site(node, "text", self.source(node))
            return self.hook("text", number, self.visit(owner), method, self.visit(node.args[0]), like=node)
        return self.generic_visit(node)


def _tests_text(node: ast.Call) -> bool:
    method = isinstance(node.func, ast.Attribute) and node.func.attr in {"startswith", "endswith"}
    one = len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
    return method and one


def _again(node: ast.expr) -> ast.expr:
    """Return the same operand as a tree of its own."""
    return ast.copy_location(ast.parse(ast.unparse(node), mode="eval").body, node)

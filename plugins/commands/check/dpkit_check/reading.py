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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import attrs
import numpy as np

Operand: TypeAlias = float | str | None
"""A number, a text, or nothing that can be compared."""

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
    sides
        Those that were seen: True and False.
    operands
        The last few that were compared.
    """

    file: Path
    line: int
    end: int
    way: Way
    text: str
    owners: tuple[tuple[str, int], ...]
    sides: set[bool] = attrs.field(factory=set)
    operands: deque[tuple[Operand, Operand]] = attrs.field(factory=lambda: deque(maxlen=6))
    least: float = math.inf
    most: float = -math.inf

    @property
    def wanted(self) -> frozenset[bool]:
        """The sides that there are."""
        return frozenset({True} if self.way == "block" else {True, False})

    def note(self, one: Any, other: Any) -> None:
        """Keep what was compared."""
        pair = _small(one), _small(other)
        self.operands.append(pair)
        if isinstance(pair[0], float | int):
            self.least, self.most = min(self.least, pair[0]), max(self.most, pair[0])


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
    not_read
        Functions without a source that can be rewritten, such as compiled ones.
    """

    blocks: tuple[int, int] = (0, 0)
    sides: tuple[int, int] = (0, 0)
    unreached: tuple[Unreached, ...] = ()
    not_read: tuple[str, ...] = ()


class Watch:
    """Watches functions: ``with Watch(functions) as watch: ...``; may be entered again inside.

    Parameters
    ----------
    functions
        Those of the part.
    """

    _numbers = itertools.count()

    def __init__(self, functions: Iterable[types.FunctionType]) -> None:
        self.sites: list[Site] = []
        self.changes = 0
        self._tag = f"_dpkit_watch_{next(Watch._numbers)}"
        self._depth = 0
        self._codes: list[tuple[types.FunctionType, types.CodeType, types.CodeType]] = []
        self._trees: list[ast.AST] = []
        not_read: list[str] = []
        by_file: dict[str, list[types.FunctionType]] = {}
        for function in functions:
            by_file.setdefault(function.__code__.co_filename, []).append(function)
        for file, those in by_file.items():
            source = _source(file)
            read = {} if source is None else self._rewritten(Path(file), source, those)
            for function in those:
                code, new = function.__code__, read.get(_key(function.__code__))
                if new is None or new.co_freevars != code.co_freevars:
                    not_read.append(function.__qualname__)
                else:
                    self._codes.append((function, code, new))
        self.not_read = tuple(not_read)
        self.hits = bytearray(len(self.sites))

    def _rewritten(
        self, file: Path, source: str, functions: Iterable[types.FunctionType]
    ) -> dict[tuple[str, int], types.CodeType]:
        """Return name and first line of each function -> its code with hooks; keep the sites watched."""
        tree = ast.parse(source)
        rewriter = _Rewriter(self, file, source, self._tag)
        new = compile(ast.fix_missing_locations(rewriter.visit(tree)), str(file), "exec", dont_inherit=True)
        wanted = {_key(function.__code__) for function in functions}
        rewriter.keep(wanted)
        found = {_key(code): code for code in _codes_in(new)}
        self._trees += [
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef) and any(_starts(node) == line for _, line in wanted)
        ]
        return found

    def __enter__(self) -> Self:
        if not self._depth:
            setattr(builtins, self._tag, self)
            for function, _, new in self._codes:
                function.__code__ = new
        self._depth += 1
        return self

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1
        if not self._depth:
            for function, old, _ in self._codes:
                function.__code__ = old
            delattr(builtins, self._tag)

    def _see(self, site: Site, side: bool) -> None:
        if side not in site.sides:
            site.sides.add(side)
            self.changes += 1

    def compare(self, number: int, which: int, one: Any, other: Any) -> Any:
        """Return the comparison; of arrays, both sides are seen if some entries are and some are not."""
        result = _COMPARED[_OPERATORS[which]](one, other)
        site = self.sites[number]
        try:
            sides = _sides(result) if isinstance(result, np.ndarray) else {bool(result)}
        except (TypeError, ValueError):
            return result
        for side in sides:
            self._see(site, side)
        site.note(one, other)
        return result

    def truth(self, number: int, value: Any) -> Any:
        """Return the value, and note whether it is true."""
        with suppress(TypeError, ValueError):  # an array at the end of ``a or b`` is none
            self._see(self.sites[number], bool(value))
        return value

    def cap(self, number: int, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return what a cap returns, and note whether it binds."""
        result = function(*args, **options)
        site = self.sites[number]
        try:
            changed = np.asarray(np.asarray(result) != np.asarray(args[0]))
        except (TypeError, ValueError):
            return result
        if changed.dtype == np.bool_:
            for side in _sides(changed):
                self._see(site, side)
            site.note(args[0], args[1])
        return result

    def text(self, number: int, owner: Any, name: str, argument: Any) -> Any:
        """Return the test of a text."""
        result = getattr(owner, name)(argument)
        site = self.sites[number]
        self._see(site, bool(result))
        site.note(owner, argument)
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
            mine.operands.extend(its.operands)
            mine.least, mine.most = min(mine.least, its.least), max(mine.most, its.most)

    def reach(self) -> Reach:
        """Return what was reached so far, and what was not."""
        for number, site in enumerate(self.sites):
            if self.hits[number]:
                site.sides.add(True)
        blocks = [site for site in self.sites if site.way == "block"]
        ways = [site for site in self.sites if site.way in {"truth", "compare", "text"}]
        return Reach(
            (sum(map(len, (site.sides for site in blocks))), len(blocks)),
            (sum(len(site.sides) for site in ways), 2 * len(ways)),
            tuple(self._unreached()),
            self.not_read,
        )

    def _unreached(self) -> Iterator[Unreached]:
        """Yield the outermost blocks that never ran, and conditions inside of a line that went one way."""
        conditions = {(site.file, site.line, site.text): site for site in self.sites if site.way != "block"}
        dark: dict[Path, list[tuple[int, int]]] = {}
        for site in self.sites:
            if site.way != "block" or site.sides:
                continue
            if any(begin <= site.line and site.end <= end for begin, end in dark.get(site.file, ())):
                continue
            dark.setdefault(site.file, []).append((site.line, site.end))
            if _excused(site):
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
            if site.way in {"compare", "text", "truth"} and len(site.sides) == 1 and lit:
                # A statement has blocks, which tell; what is left is inside of a line.
                following = any(
                    b.way == "block" and b.file == site.file and 0 < b.line - site.line <= _NEAR
                    and site.text in b.text and not b.sides for b in self.sites
                )  # fmt: skip
                if following or _excused(site) or not _inline(site):
                    continue
                always = next(iter(site.sides))
                needs = f"not ({site.text})" if always else site.text
                yield Unreached(str(site.file), site.line, site.line, needs, _seen(site))

    def constants(self) -> tuple[tuple[float, ...], tuple[str, ...]]:
        """Return the numbers and the words of the code watched, and of the constants that it names."""
        numbers: set[float] = set()
        words: set[str] = set()
        for tree in self._trees:
            _mine(tree, numbers, words)
        for function, _, _ in self._codes:
            owner = sys.modules.get(function.__module__)
            if owner is None or function.__module__.startswith("dpkit_core"):
                continue
            for name in function.__code__.co_names:
                _keep(getattr(owner, name, None), numbers, words)
            for value in function.__defaults__ or ():
                _keep(value, numbers, words)
        return tuple(sorted(numbers)), tuple(sorted(words))


# Lines between a condition and the block that follows it.
_NEAR = 8


def _sides(truths: Any) -> set[bool]:
    return ({True} if truths.any() else set()) | (set() if truths.all() else {False})


def _inline(site: Site) -> bool:
    """Return whether a condition is not that of a statement with a block of its own."""
    line = _lines(str(site.file))[site.line - 1].strip()
    return not line.startswith(("if ", "elif ", "while ", "assert ", "case "))


def _excused(site: Site) -> bool:
    lines = _lines(str(site.file))[max(0, site.line - 2) : site.line]
    return any(UNREACHABLE in line and line.split(UNREACHABLE)[1].strip() for line in lines)


def _lines(file: str) -> tuple[str, ...]:
    return tuple((_source(file) or "").splitlines()) or ("",)


def _seen(site: Site) -> str:
    """Return what a condition was given, in words."""
    if math.isfinite(site.least):
        same = site.least == site.most
        return f"seen {site.least:g}" if same else f"seen {site.least:g} to {site.most:g}"
    words = list(dict.fromkeys(one for one, _ in site.operands if isinstance(one, str)))
    if words:
        return "seen " + ", ".join(words[:4])
    return f"always {next(iter(site.sides))}" if len(site.sides) == 1 else ""


def _small(value: Any) -> Operand:
    match value:
        case bool() | int() | float() | str():
            return value
        case np.generic():
            return _small(value.item())
        case np.ndarray() if value.ndim == 0:
            return _small(value.item())
        case np.ndarray() if value.size and value.dtype.kind in "fiub":
            return float(np.max(value))
        case _:
            return None


def _source(file: str) -> str | None:
    # Not remembered: a part that is edited between two checks would be run as it was.
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _key(code: types.CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes_in(constant)


def _starts(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


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


def watched(cls: type[Any]) -> Watch:
    """Return a watch of the code of a part: what its class names in its own package."""
    home = cls.__module__.partition(".")[0]
    functions: dict[int, types.FunctionType] = {}
    done: set[int] = set()
    waiting: list[Any] = [cls]
    while waiting:
        thing = waiting.pop()
        if id(thing) in done:
            continue
        done.add(id(thing))
        if isinstance(thing, type):
            waiting += [base for base in thing.__mro__[1:] if _at_home(base, home)]
            for member in vars(thing).values():
                waiting += _functions(member)
        elif isinstance(thing, types.FunctionType) and _at_home(thing, home) and _written(thing):
            functions[id(thing)] = thing
            for value in _named(thing):
                if isinstance(value, types.ModuleType):
                    if value.__name__.partition(".")[0] == home:
                        others = (getattr(value, other, None) for other in thing.__code__.co_names)
                        waiting += [other for other in others if _at_home(other, home)]
                elif _at_home(value, home):
                    waiting += [value] if isinstance(value, type) else _functions(value)
    return Watch(functions.values())


def _written(function: types.FunctionType) -> bool:
    """Return whether a function stands in the file of its module: others were made for it, as by attrs."""
    module = sys.modules.get(function.__module__)
    return getattr(module, "__file__", None) == function.__code__.co_filename


def _named(function: types.FunctionType) -> Iterator[Any]:
    """Yield the globals and the enclosed variables that the code of a function names, inner ones too."""
    names = {name for code in (function.__code__, *_codes_in(function.__code__)) for name in code.co_names}
    for name in sorted(names):
        if name in function.__globals__:
            yield function.__globals__[name]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            yield cell.cell_contents


def _at_home(thing: Any, home: str) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] == home


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
        self.owners: list[tuple[str, int]] = []
        self.first = len(watch.sites)

    def keep(self, wanted: set[tuple[str, int]]) -> None:
        """Forget what belongs to no function that is watched: it stays in its place, and wants nothing."""
        for site in self.watch.sites[self.first :]:
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
        visited: ast.expr = self.visit(node)
        own = isinstance(node, ast.BoolOp | ast.Compare) or (
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
        """Watch every part."""
        node.values = [self.test(value) for value in node.values]
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

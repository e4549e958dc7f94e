"""A file appears whole or not at all, whichever call to the system fails, and nobody loses an older one."""

import ast
import errno
import inspect
import os

import pytest

from dpkit_core.errors import InvalidOption
from dpkit_core.files import writing
from dpkit_core.files.writing import reserved, write_whole

OLD, NEW = "the old text\n", "the new text, which is longer\n" * 3000


class Failing:
    """The module ``os``, of which the call number ``fails`` fails; it counts the calls that writing makes."""

    def __init__(self, fails=None, error=errno.EIO, short=False):
        self.fails, self.error, self.short, self.made = fails, error, short, []

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in writing.CALLS:
            return real

        def call(*arguments):
            self.made.append(name)
            if len(self.made) - 1 == self.fails:
                raise OSError(self.error, os.strerror(self.error))
            if name == "write" and self.short:
                return real(arguments[0], arguments[1][:7000])
            return real(*arguments)

        return call


def write(path, replace):
    with reserved(path, replace=replace) as output:
        output.make_room(50_000)
        try:
            output.write(NEW)
        except OSError:
            return output
    return output


def calls_of(tmp_path, monkeypatch, replace):
    counting = Failing()
    monkeypatch.setattr(writing, "os", counting)
    write(tmp_path / "counted", replace)
    return counting.made


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("replace", [False, True])
def test_a_file_is_whole_whichever_call_fails(tmp_path, monkeypatch, replace, error):
    made = calls_of(tmp_path, monkeypatch, replace)
    assert set(made) == set(writing.CALLS)
    for number, call in enumerate(made):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "release.json"
        if replace:
            path.write_text(OLD)
        monkeypatch.setattr(writing, "os", Failing(number, error))
        output, told = None, []
        try:
            output = write(path, replace)
        except InvalidOption as refused:
            told.append(str(refused))
        where = (number, call)
        now = path.read_text() if path.exists() else None
        assert now in ({OLD, NEW} if replace else {None, NEW}), where
        if output is None:  # told beforehand: nothing has happened
            assert os.strerror(error) in told[0], where
            assert now == (OLD if replace else None), where
            assert [p.name for p in folder.iterdir()] == ["release.json"] * replace, where
        elif output.left is not None:
            assert output.left.read_text() == NEW, where
        elif now != NEW:
            assert sorted(folder.iterdir()) == [path] * replace, where  # no half of a text is left behind


def test_every_call_that_writing_makes_is_listed():
    asked = {
        node.func.attr
        for node in ast.walk(ast.parse(inspect.getsource(writing)))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "os"
    }
    others = {"strerror", "fspath", "access", "unlink"}  # of which the last one removes, and nothing else
    assert asked - others == set(writing.CALLS)


def test_short_writes_are_continued(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "os", Failing(short=True))
    write(tmp_path / "f", replace=False)
    assert (tmp_path / "f").read_text() == NEW


def test_the_second_writer_is_told_and_the_first_one_is_not_disturbed(tmp_path):
    path = tmp_path / "release.json"
    for replace in (False, True):
        with reserved(path, replace=replace) as first:
            with pytest.raises(InvalidOption, match="program is writing"), reserved(path, replace=True):
                pass
            first.write(NEW)
        assert path.read_text() == NEW
        assert sorted(tmp_path.iterdir()) == [path]


def test_what_appears_meanwhile_is_not_overwritten_and_nothing_is_lost(tmp_path):
    path = tmp_path / "release.json"
    with reserved(path) as output:
        path.write_text("of somebody else")
        with pytest.raises(FileExistsError):
            output.write(NEW)
    assert path.read_text() == "of somebody else"
    assert output.left.read_text() == NEW


def test_what_is_not_written_leaves_no_trace(tmp_path):
    def interrupted():
        with reserved(tmp_path / "f") as output:
            output.make_room(1000)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())


def test_the_path_is_fixed_when_it_is_reserved(tmp_path, monkeypatch):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with reserved("f") as output:
        monkeypatch.chdir(tmp_path / "there")
        output.write("text")
    assert (tmp_path / "here" / "f").read_text() == "text"


def test_a_link_stands_for_what_it_points_to(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "f")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "f").read_text() == "text"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent/f", "no folder"),
        ("", "is a folder"),
        ("file/f", "Not a directory"),
        ("a\0b", "null byte"),
        ("x" * 300, "File name too long"),
        ("pipe", "not an ordinary file"),
        ("file", "it exists"),
    ],
)
def test_a_path_that_cannot_be_written_is_told_with_the_reason(tmp_path, name, words):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidOption, match=words), reserved(f"{tmp_path}/{name}"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "pipe"]

"""How dpkit is installed, for every message and page that says so; ``docs/howto/install.md`` says more."""


def install(what: str = "") -> str:
    """Return the command that installs dpkit, or a part of it, and what it takes.

    Parameters
    ----------
    what
        Extras, such as ``[report]``, or the folder of a plugin, such as ``/plugins/scorers/kendall``.

    >>> print(install("[report]"))
    uv pip install 'CLONE[report]', where CLONE is your clone of dpkit, which no package index has yet
    """
    return f"uv pip install 'CLONE{what}', where CLONE is your clone of dpkit, which no package index has yet"

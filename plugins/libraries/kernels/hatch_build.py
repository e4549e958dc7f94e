"""Compiles the kernels where there is a compiler; elsewhere the wheel is pure Python, and NumPy serves."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "_kernels" + {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
# No contraction: a product that is added without being rounded first differs from NumPy's.
OPTIONS = ("-std=c99", "-O3", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC")


class Kernels(BuildHookInterface):
    """Adds a library that any Python loads, since it knows nothing of Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile unless ``DPKIT_KERNELS`` is ``off``; fail only if it is ``require``.

        Into the wheel, or, where the wheel is editable, beside the source: there git ignores it.
        """
        folder = Path(self.root, "dpkit_kernels")
        beside = version == "editable"
        if beside:
            (folder / NAME).unlink(missing_ok=True)  # of an earlier source
        wish = os.environ.get("DPKIT_KERNELS", "auto")
        if wish == "off":
            return
        self._scratch = tempfile.mkdtemp()
        made = Path(self._scratch, NAME)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        try:
            subprocess.run(
                [*compiler, *OPTIONS, folder / "kernels.c", "-o", made, "-lm"],
                check=True,
                capture_output=True,
                timeout=300,
            )
        except (OSError, subprocess.SubprocessError) as problem:
            if wish == "require":
                raise
            self.app.display_warning(f"kernels are not compiled, and NumPy will be used: {problem}")
            return
        if beside:
            shutil.copy(made, folder / f"{NAME}.new")
            Path(folder, f"{NAME}.new").replace(folder / NAME)  # whoever has loaded it keeps it
            return
        build_data["force_include"][str(made)] = f"dpkit_kernels/{NAME}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled for the wheel."""
        shutil.rmtree(getattr(self, "_scratch", ""), ignore_errors=True)

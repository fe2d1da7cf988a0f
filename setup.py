"""Builds the compiled kernels of `fedaudit/native` where there is a C compiler.

Without one the package is built without them, and computes the same bits by numpy and torch, only
slower. Everything else about the package is in pyproject.toml.
"""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NATIVE = Path("fedaudit/native")
# By another ending Python would take it for a module.
LIBRARY = "kernels.compiled"
# Exactly what the sources say, operation by operation: no product and sum in one rounding. The
# other two only let square roots and conditions be computed for many numbers at once.
FLAGS = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


class BuildLibrary(build_ext):
    """A library that needs nothing of Python, and so has no version of Python in its name."""

    def get_ext_filename(self, fullname: str) -> str:
        """See `build_ext`."""
        return str(Path(*fullname.split(".")).with_name(LIBRARY))


class Wheel(bdist_wheel):
    """A wheel for every Python: of this platform with the library, of any without."""

    def get_tag(self) -> tuple[str, str, str]:
        """See `bdist_wheel`."""
        built = any(Path(self.bdist_dir).rglob(LIBRARY))
        return "py3", "none", super().get_tag()[2] if built else "any"


setup(
    ext_modules=[
        Extension(
            "fedaudit.native.kernels",
            sources=sorted(str(path) for path in NATIVE.glob("*.c")),
            depends=sorted(str(path) for path in NATIVE.glob("*.h")),
            extra_compile_args=FLAGS,
            extra_link_args=["-s"],  # nothing for debuggers: a third of the size
            libraries=["m"],
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": Wheel},
)

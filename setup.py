"""The compiled part of the package; everything else about it is in pyproject.toml.

`SIM_PURE_PYTHON=1 uv build` builds a wheel without it, tagged `py3-none-any`, for every machine and Python.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("sim/_speedups")

compiled = Extension(
    "sim._speedups._core",
    sources=sorted(path.as_posix() for path in FOLDER.glob("*.c")),
    depends=sorted(path.as_posix() for path in FOLDER.glob("*.h")),
    optional=True,  # without a compiler it is left out
)
setup(ext_modules=[] if os.environ.get("SIM_PURE_PYTHON") else [compiled])

"""What pyproject.toml cannot say: the compiled part of the package, and folders outside `sim` that it installs.

`SIM_PURE_PYTHON=1 uv build` builds a wheel without the compiled part, `py3-none-any`, for every machine and Python.
The folder scenarios/ is installed as the package `sim.gallery`, and dashboards/ as `sim.dashboards`.
"""

import os
from pathlib import Path

from setuptools import Extension, find_namespace_packages, setup

OUTSIDE = {"sim.gallery": "scenarios", "sim.dashboards": "dashboards"}
FOLDER = Path("sim/kernel/compiled")

compiled = Extension(
    "sim.kernel.compiled._core",
    sources=sorted(path.as_posix() for path in FOLDER.glob("*.c")),
    depends=sorted(path.as_posix() for path in FOLDER.glob("*.h")),
    optional=True,  # without a compiler it is left out
)
setup(
    packages=[*find_namespace_packages(include=["sim", "sim.*"]), *OUTSIDE],
    package_dir=OUTSIDE,
    ext_modules=[] if os.environ.get("SIM_PURE_PYTHON") else [compiled],
)

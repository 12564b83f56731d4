"""What pyproject.toml cannot say: the folder scenarios/ is installed as the package `sim.gallery`."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["sim", "sim.*"]), "sim.gallery"],
    package_dir={"sim.gallery": "scenarios"},
)

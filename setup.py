"""What pyproject.toml cannot say: the package sim.gallery is the folder scenarios/, so that an installed `sim` has them."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["sim", "sim.*"]), "sim.gallery"],
    package_dir={"sim.gallery": "scenarios"},
)

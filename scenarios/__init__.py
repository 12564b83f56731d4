"""The scenarios of the project. An installed `sim` has this folder as the package `sim.gallery`; see setup.py."""

"""Writes the time zones that `sim` brings: `uv run python docs/time_zones.py`.

They are the files of the package `tzdata` in the version of the development environment, in one archive. So each
version of `sim` has the zones of its own, whatever else is installed, and takes a tenth of the room. A test compares
the two.
"""

from importlib.resources import files
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ARCHIVE = Path(__file__).parents[1] / "sim" / "kernel" / "zones.zip"


def zones() -> dict[str, bytes]:
    """Return the files of all zones, by their names."""
    folder = files("tzdata")
    names = folder.joinpath("zones").read_text(encoding="utf-8").split()
    return {name: folder.joinpath("zoneinfo", *name.split("/")).read_bytes() for name in sorted(names)}


def main() -> None:
    """Write the archive."""
    with ZipFile(ARCHIVE, "w") as archive:
        for name, data in zones().items():
            archive.writestr(ZipInfo(name), data, ZIP_DEFLATED, compresslevel=9)


if __name__ == "__main__":
    main()

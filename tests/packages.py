"""Installed packages for tests: files in a folder, with the metadata that an installer leaves."""

from collections.abc import Mapping
from pathlib import Path


def install(
    site: Path,
    name: str,
    files: Mapping[str, str],
    *,
    offers: Mapping[str, Mapping[str, str]] | None = None,
    metadata: Mapping[str, str] | None = None,
    version: str = "1.2.0",
) -> None:
    """Install a package in a folder from which modules are imported.

    Args:
        site: the folder.
        name: the name of the package.
        files: its files.
        offers: its entry points, by group and name.
        metadata: further files of its metadata.
        version: its version.
    """
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    groups = (
        f"[{group}]\n" + "".join(f"{key} = {target}\n" for key, target in points.items())
        for group, points in (offers or {}).items()
    )
    told = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "entry_points.txt": "".join(groups),
        **(metadata or {}),
    }
    written = {**files, **{f"{info}/{file}": text for file, text in told.items()}}
    for file, text in written.items():
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_text(text, encoding="utf-8")
    (site / info / "RECORD").write_text("".join(f"{file},,\n" for file in written), encoding="utf-8")

"""Pages about a run, as files in its folder or elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from sim.base.errors import UsageError
from sim.record.drafts import draft_folder, sync_file
from sim.record.files import DATABASE, failure
from sim.record.zip_archives import archive_of


@contextmanager
def page_file(
    folder: Path, name: str, target: Path | None, *, suffix: str, force: bool
) -> Iterator[tuple[Path, TextIO]]:
    """Open a new file for a page, readable by its owner only, which gets its name when all is written.

    Args:
        folder: the folder of the run.
        name: the name of the page in this folder; a page of this name is replaced.
        target: the file; None: `name` in the folder of the run, or beside the archive of the run.
        suffix: how the name of the file beside an archive ends; what is before it is the name of the archive.
        force: whether to replace another target if it exists.

    Raises:
        UsageError: if the target exists, or is in the folder of another run.
        RunError: if the file cannot be written.
    """
    archive = archive_of(folder)
    own = folder / name if archive is None else archive.with_suffix(suffix)
    file = own if target is None else target
    if archive is not None or file.resolve() != own.resolve():
        if (file.parent / DATABASE).exists():
            raise UsageError(f"{file} is in the folder of a run", hint=f"choose another folder, or {own}")
        if file.exists() and not force:
            raise UsageError(f"{file} exists", hint="choose another name, or replace the file with --force")
    try:
        with draft_folder(file.parent, ".page") as place:
            draft = place / "draft"
            draft.touch(0o600)
            with draft.open("w", encoding="utf-8") as opened:
                yield file, opened
            sync_file(draft)
            draft.replace(file)
    except OSError as error:
        raise failure(file, error) from error

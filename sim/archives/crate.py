"""What an archive says of itself: metadata as an RO-Crate 1.1, and a citation file (CFF 1.2.0).

RO-Crate describes a folder of research data in JSON-LD. See the specification of RO-Crate 1.1: the root dataset, its
files, people, the software, and the action that made the result.
"""

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Self

import attrs

from sim.base.errors import UsageError
from sim.kernel.codec import Json, JsonObject, decode

METADATA: Final = "ro-crate-metadata.json"
CITATION: Final = "CITATION.cff"

_CONTEXT: Final = "https://w3id.org/ro/crate/1.1/context"
_ORCID: Final = re.compile(r"\d{4}-\d{4}-\d{4}-\d{3}[\dX]")
_DATE: Final = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_LICENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}")
_TYPES: Final = {
    ".db": "application/vnd.sqlite3", ".yaml": "application/yaml", ".cff": "application/yaml", ".md": "text/markdown",
    ".whl": "application/zip", ".txt": "text/plain", ".json": "application/json", ".csv": "text/csv",
    ".html": "text/html", ".py": "text/x-python",
}  # fmt: skip


@attrs.frozen
class Author:
    """An author.

    Args:
        family: the family name, or the name of an organization.
        given_names: the given names; empty: it is an organization.
        orcid: the ORCID, such as 0000-0002-1825-0097; None: not given.
    """

    family: str
    given_names: str = ""
    orcid: str | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the author that a text names: `Family, Given`, with an ORCID after another comma if it is known.

        Raises:
            UsageError: if it has another form, or an ORCID is not valid.
        """
        family, *others = (part.strip() for part in text.split(","))
        orcid = others.pop().rpartition("/")[2] if others and _ORCID.search(others[-1]) else None
        if not family or len(others) > 1 or len(text) > 200 or not text.isprintable():
            raise UsageError(
                f"the author {text[:80]!r} is not of the form Family, Given", hint='such as "Grimm, Volker"'
            )
        if orcid is not None and not _is_orcid(orcid):
            raise UsageError(f"{orcid!r:.80} is no ORCID", hint="such as 0000-0002-1825-0097")
        return cls(family, others[0] if others else "", orcid)

    @property
    def name(self) -> str:
        """The name as people say it."""
        return f"{self.given_names} {self.family}".strip()


@attrs.frozen
class Details:
    """What only the authors of an archive know.

    Args:
        authors: the authors.
        licence: the SPDX identifier of the licence of the data, such as CC-BY-4.0; None: it is not stated.
        date: the date of publication, YYYY-MM-DD; None: the day on which the run or the experiment began.
        title: the title; None: made from the name of the scenario.
    """

    authors: Sequence[Author] = ()
    licence: str | None = None
    date: str | None = None
    title: str | None = None

    def check(self) -> None:
        """Check the authors, the date, the licence and the title.

        Raises:
            UsageError: if one is not valid.
        """
        if self.date is not None and not _is_date(self.date):
            raise UsageError(f"{self.date!r:.40} is no date", hint="such as 2026-11-25")
        if self.licence is not None and not _LICENCE.fullmatch(self.licence):
            raise UsageError(f"{self.licence!r:.80} is no identifier of a licence", hint="such as CC-BY-4.0, from SPDX")
        if len({author.orcid or author for author in self.authors}) < len(self.authors):
            raise UsageError("an author is given twice")
        if self.title is not None and not (self.title.isprintable() and 0 < len(self.title) <= 300):
            raise UsageError("a title has 1 to 300 characters in one line")


@attrs.frozen
class ArchivedStudy:
    """What an archive is about.

    Attributes:
        title: its title.
        description: what it shows.
        date: the date of publication.
        begun: when the run began, as ISO 8601; None: not known.
        ended: when it ended; None: not known.
        sim: the version of sim.
        python: the version of Python.
        scenario: the path of the scenario in the archive.
        results: the paths of what came out.
        replay: what is needed to repeat it, as JSON; see `sim.archives.fresh`.
    """

    title: str
    description: str
    date: str
    begun: str | None
    ended: str | None
    sim: str
    python: str
    scenario: str
    results: Sequence[str]
    replay: JsonObject


def metadata_of(study: ArchivedStudy, details: Details, files: Mapping[str, tuple[int, str]]) -> bytes:
    """Return the metadata of an archive.

    Args:
        study: what it is about.
        details: what its authors say.
        files: the size in bytes and the SHA-256 of each file, by its path.
    """
    people = [_person(author, number) for number, author in enumerate(details.authors, 1)]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": study.title,
        "description": study.description,
        "datePublished": study.date,
        "license": {"@id": _licence(details)["@id"]},
        "author": [{"@id": person["@id"]} for person in people],
        "hasPart": [{"@id": path} for path in sorted(files)],
        "mentions": [{"@id": "#run"}, {"@id": "#replay"}],
    }
    action = {
        "@id": "#run",
        "@type": "CreateAction",
        "name": f"Simulation: {study.title}",
        "instrument": {"@id": "#sim"},
        "object": {"@id": study.scenario},
        "result": [{"@id": path} for path in study.results],
        "agent": [{"@id": person["@id"]} for person in people],
        **({"startTime": study.begun} if study.begun else {}),
        **({"endTime": study.ended} if study.ended else {}),
    }
    graph = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
            "about": {"@id": "./"},
        },
        {key: value for key, value in root.items() if value != []},
        *(_file(path, *files[path]) for path in sorted(files)),
        *people,
        _licence(details),
        {
            "@id": "#sim",
            "@type": "SoftwareApplication",
            "name": "sim",
            "version": study.sim,
            "softwareRequirements": f"Python {study.python}",
        },
        {key: value for key, value in action.items() if value != []},
        {
            "@id": "#replay",
            "@type": "PropertyValue",
            "name": "replay",
            "value": json.dumps(study.replay, sort_keys=True),
        },
    ]
    return (json.dumps({"@context": _CONTEXT, "@graph": graph}, indent=2, ensure_ascii=True) + "\n").encode()


def read_metadata(data: bytes) -> tuple[dict[str, tuple[int, str]], dict[str, Json], str]:
    """Return the size and the hash of each file, what is needed to repeat the run, and the title.

    Raises:
        ValueError: if it is not the metadata of an archive that this version can read.
    """
    try:
        entities = {one["@id"]: one for one in decode(data)["@graph"]}
        files = {
            str(id): (int(one["contentSize"]), str(one["sha256"]))
            for id, one in entities.items()
            if one["@type"] == "File"
        }
        replay = json.loads(entities["#replay"]["value"])
        title = str(entities["./"]["name"])
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("it is not the metadata of an archive") from error
    if not isinstance(replay, dict):
        raise ValueError("it does not say how to repeat the run")
    return files, replay, title


def citation_of(study: ArchivedStudy, details: Details) -> bytes:
    """Return a citation file. Each text in it is a JSON string without escaped surrogates, as YAML reads it."""
    lines = [
        "cff-version: 1.2.0",
        'message: "If you use these data, please cite them as below."',
        "type: dataset",
        f"title: {_quoted(study.title)}",
        f"abstract: {_quoted(study.description)}",
        "authors:",
    ]
    for author in details.authors:
        if author.given_names:
            lines += [f"  - family-names: {_quoted(author.family)}", f"    given-names: {_quoted(author.given_names)}"]
        else:
            lines += [f"  - name: {_quoted(author.family)}"]
        if author.orcid:
            lines += [f'    orcid: "https://orcid.org/{author.orcid}"']
    if not details.authors:
        lines += ['  - name: "authors not stated"']
    lines += [f'date-released: "{study.date}"']
    if details.licence is not None:
        lines += [f'license: "{details.licence}"']
    lines += [
        "references:",
        "  - type: software",
        '    title: "sim"',
        f"    version: {_quoted(study.sim)}",
        "    authors:",
        '      - name: "The sim authors"',
        "",
    ]
    return "\n".join(lines).encode()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and dt.date.fromisoformat(text) is not None
    except ValueError:  # such as 31 February
        return False


def _is_orcid(text: str) -> bool:
    """Return whether the check digit of an ORCID is right (ISO 7064, mod 11-2)."""
    if not _ORCID.fullmatch(text):
        return False
    total = 0
    for digit in text.replace("-", "")[:-1]:
        total = (total + int(digit)) * 2
    return text[-1] == "0123456789X"[(12 - total % 11) % 11]


def _person(author: Author, number: int) -> dict[str, Json]:
    id = f"https://orcid.org/{author.orcid}" if author.orcid else f"#author-{number}"
    if not author.given_names:
        return {"@id": id, "@type": "Organization", "name": author.name}
    return {
        "@id": id,
        "@type": "Person",
        "name": author.name,
        "familyName": author.family,
        "givenName": author.given_names,
    }


def _licence(details: Details) -> dict[str, Json]:
    if details.licence is None:
        text = "The authors have not stated a licence."
        return {"@id": "#licence", "@type": "CreativeWork", "name": "not stated", "description": text}
    return {
        "@id": f"https://spdx.org/licenses/{details.licence}",
        "@type": "CreativeWork",
        "name": details.licence,
        "description": f"The licence {details.licence} of the SPDX list.",
    }


def _file(path: str, size: int, sha256: str) -> dict[str, Json]:
    name = path.rpartition("/")[2]
    kind = _TYPES.get(f".{name.rpartition('.')[2]}", "application/octet-stream")
    return {
        "@id": path,
        "@type": "File",
        "name": name,
        "contentSize": str(size),
        "sha256": sha256,
        "encodingFormat": kind,
    }

"""Write `sim/kernel/compiled/layout.h`: the slots of the kernel's classes, by which the C reads them.

`--check` writes nothing and exits with 1 if the file is out of date. Offsets are not in it: they differ between
versions of Python, and are read from the classes when the C takes over.
"""

import sys
from pathlib import Path

sys.modules["sim.kernel.compiled._core"] = None  # type: ignore[assignment]  # it may be of an older layout
from sim.kernel import DRIVEN  # noqa: E402 - only now

FILE = Path(__file__).parents[1] / "sim" / "kernel" / "compiled" / "layout.h"
WIDTH = 118


def _macro(name: str, items: list[str]) -> str:
    lines = [f"#define {name}(X)"]
    for item in items:
        if len(lines[-1]) + len(item) + 1 > WIDTH or len(lines) == 1:
            lines.append("   ")
        lines[-1] += f" {item}"
    return " \\\n".join(lines)


def layout() -> str:
    """Return the text of the file."""
    slots = [
        f"X({cls.__name__}, {slot})" for cls in DRIVEN for slot in sorted(vars(cls)["__slots__"]) if slot[:2] != "__"
    ]
    parts = [
        "/* The classes of the kernel that the C drives, and their slots. Made by .ci/layout.py; do not edit. */",
        _macro("CLASSES", [f"X({cls.__name__})" for cls in DRIVEN]),
        _macro("SLOTS", slots),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--check"]:
        FILE.write_text(layout(), encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != layout():
        sys.exit(f"{FILE.name} is out of date: run `uv run python .ci/layout.py`")

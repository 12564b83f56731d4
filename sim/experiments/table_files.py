"""Tables of results as texts: LaTeX with booktabs, Markdown and CSV. Names are escaped, means have intervals."""

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from sim.experiments.arms import Difference
from sim.experiments.estimate import Estimate
from sim.experiments.experiment import PointEstimates
from sim.experiments.plan import Plan
from sim.experiments.points import short
from sim.record.export import csv_cell

Form = Literal["latex", "csv", "md"]

_LATEX: Final[Mapping[str, str]] = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}", '"': r"\textquotedbl{}", "±": r"$\pm$", "\n": " ",
}  # fmt: skip
_MD: Final = re.compile(r"[\\`*_{}\[\]<>#|~]")

Cell = str | int | Estimate | None


def estimates_cells(plan: Plan, rows: Sequence[PointEstimates]) -> tuple[list[str], list[list[Cell]]]:
    """Return the headings and the rows of a table: a row for each combination or arm, a column for each outcome."""
    names = list(dict.fromkeys(name for row in rows for name in row.outcomes))
    keys = [] if plan.arms else list(plan.points[0])
    heads = [*(["arm"] if plan.arms else []), *(short(key, plan.points[0]) for key in keys), "seeds"]
    cells: list[list[Cell]] = [
        [
            *([row.label] if plan.arms else []),
            *(row.point[key] for key in keys),
            row.seeds,
            *(row.outcomes.get(name) for name in names),
        ]
        for row in rows
    ]
    return [*heads, *map(plan.shown, names)], cells


def differences_cells(plan: Plan, differences: Sequence[Difference]) -> tuple[list[str], list[list[Cell]]]:
    """Return the headings and the rows of a table of differences: a row for each arm and outcome."""
    cells: list[list[Cell]] = [
        [one.arm, plan.shown(one.outcome), one.difference.n, one.baseline, one.difference] for one in differences
    ]
    return ["arm" if plan.arms else "combination", "outcome", "seeds", "baseline", "difference"], cells


def table_text(heads: Sequence[str], rows: Sequence[Sequence[Cell]], form: Form) -> str:
    """Return a table as text.

    In LaTeX it is a `tabular` with the rules of booktabs, and in Markdown a pipe table. A mean has half the width of
    its 95 % interval after ±, to two digits, and n in brackets if it has no value for some seeds. In CSV, mean, half
    the width and n have columns of their own, with all digits.
    """
    return _WRITERS[form](heads, rows)


def _latex(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    columns = "".join("l" if _is_text(rows, place) else "r" for place in range(len(heads)))
    lines = [
        f"\\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(map(_escaped, heads)) + r" \\",
        r"\midrule",
        *(" & ".join(_latex_cell(cell, row) for cell in row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: Cell, row: Sequence[Cell]) -> str:
    if isinstance(cell, Estimate):
        mean, half, count = shown(cell, row)
        power = r"\times 10^{{{}}}"
        texts = [
            re.sub(r"e([+-]?)0*(\d+)$", lambda f: power.format(f"{f[1].strip('+')}{f[2]}"), one) for one in (mean, half)
        ]
        return f"${texts[0]} \\pm {texts[1]}${count}" if half else f"${texts[0]}${count}"
    return "--" if cell is None else _escaped(str(cell))


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    rules = ["---" if _is_text(rows, place) else "---:" for place in range(len(heads))]
    body = [[_markdown_cell(cell, row) for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in ([_marked(head) for head in heads], rules, *body))


def _markdown_cell(cell: Cell, row: Sequence[Cell]) -> str:
    if isinstance(cell, Estimate):
        mean, half, count = shown(cell, row)
        return f"{mean} ± {half}{count}" if half else f"{mean}{count}"
    return "" if cell is None else _marked(str(cell))


def _marked(text: str) -> str:
    return _MD.sub(lambda match: f"\\{match[0]}", text.replace("\n", " "))


def _csv(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    wide = [place for place in range(len(heads)) if any(isinstance(row[place], Estimate) for row in rows)]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    named = [[head, f"{head} half", f"{head} n"] if place in wide else [head] for place, head in enumerate(heads)]
    writer.writerow([csv_cell(head) for group in named for head in group])
    for row in rows:
        cells: list[str | int | float | None] = []
        for place, cell in enumerate(row):
            if isinstance(cell, Estimate):
                cells += [cell.mean, cell.half, cell.n]
            else:
                cells += [cell, *([None, 0] if place in wide else [])]
        writer.writerow(list(map(csv_cell, cells)))
    return text.getvalue()


def shown(estimate: Estimate, row: Sequence[Cell]) -> tuple[str, str, str]:
    """Return a mean, half of its interval, and n if that is not the number of seeds of the row, as texts.

    Half the interval has two digits, and the mean as many decimals; without an interval it has four digits.
    """
    seeds = next((cell for cell in row if isinstance(cell, int)), estimate.n)
    count = "" if estimate.n == seeds else f" (n = {estimate.n})"
    if not estimate.half:
        return f"{estimate.mean:.4g}", "", count
    decimals = 1 - math.floor(math.log10(estimate.half))
    if decimals > 9 or max(abs(estimate.mean), estimate.half) >= 1e9:
        return f"{estimate.mean:.3g}", f"{estimate.half:.2g}", count
    if decimals >= 0:
        return f"{estimate.mean:.{decimals}f}", f"{estimate.half:.{decimals}f}", count
    return f"{round(estimate.mean, decimals):.0f}", f"{round(estimate.half, decimals):.0f}", count


def _is_text(rows: Sequence[Sequence[Cell]], place: int) -> bool:
    return all(isinstance(row[place], str) for row in rows)


_WRITERS: Final[Mapping[Form, Callable[[Sequence[str], Sequence[Sequence[Cell]]], str]]] = {
    "latex": _latex, "csv": _csv, "md": _markdown,
}  # fmt: skip

"""docs/gallery.md: its figures are what its commands print, and agree with what was published."""

import importlib.util
import math
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

import pytest

from benchmarks import gallery
from benchmarks.tables import printed
from sim.cli import main
from sim.experiments.estimate import Estimate
from sim.scenario import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
SECTIONS = {text.partition("\n")[0]: text for text in PAGE.partition("\n## All scenarios\n")[0].split("\n## ")[1:]}
SHOWN = [
    pytest.param(command, shown, id=f"{n}-{Path(command.split()[2]).stem}")
    for n, (command, shown) in enumerate(re.findall(r"^\$ uv run (sim .*)\n```\n\n((?:    .*\n)+)", PAGE, re.MULTILINE))
]
MESA = [("Wolves and sheep", "wolf_sheep"), ("Civil violence", "civil_violence")]
Table = list[dict[str, float]]


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("command", "shown"), SHOWN)
def test_a_command_prints_the_figures_beside_it(command, shown, tmp_path):
    """Each command of the page prints the lines below it, figure by figure."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = [line.split() for line in done.stdout.splitlines()]
    assert [line for line in shown.splitlines() if line.split() not in printed] == []


@pytest.mark.slow
def test_the_first_commands_copy_and_run_a_scenario(tmp_path, monkeypatch, capsys):
    """What the page begins with works in an empty folder, without the source tree."""
    monkeypatch.chdir(tmp_path)
    commands = [line[13:].split() for line in PAGE.splitlines() if line.startswith("$ uv run sim ")][:3]
    assert [words[0] for words in commands] == ["new", "new", "run"]
    for words in commands:
        with pytest.raises(SystemExit) as ended:
            main([*words, *(["--until", "1s"] if words[0] == "run" else [])])
        assert not ended.value.code, capsys.readouterr()
    assert "\nopinions  " in capsys.readouterr().out


def test_what_to_try_is_valid():
    """Each change that the page proposes is accepted for the scenario of its section, and there are two of each."""
    for name, text in SECTIONS.items():
        (scenario,) = set(re.findall(r"scenarios/(\w+)\.yaml", text))
        tried = [shlex.split(code) for code in re.findall(r"`(--set [^`]+)`", text)]
        assert len(tried) == 2, name
        for words in tried:
            changed = [value for option, value in zip(words[::2], words[1::2], strict=True) if option == "--set"]
            load(ROOT / "scenarios" / f"{scenario}.yaml", changed)


def test_each_section_has_a_picture_and_a_source():
    """Each scenario of the page has a picture with words for who cannot see it, and the year of its source."""
    for name, text in SECTIONS.items():
        assert len(re.findall(r"!\[.{30,}\]\(\w+\.svg\)", text)) == 1, name
        assert re.search(r"\b(19|20)\d\d\b", text), name


# -- the figures of the page, and what was published


def test_cascades_are_as_likely_as_published():
    """Right and wrong cascades are as frequent as equation 2 of Bikhchandani, Hirshleifer and Welch (1992) says."""
    published = _pictures().published
    for row in _table("Information cascades"):
        p, half = row["state.p"], row["±"]
        assert abs(row["right"] - published(1, p, 20)) < half
        assert abs(row["wrong"] - published(-1, p, 20)) < half
    assert [round(published(1, p, 20), 3) for p in (0.51, 0.6, 0.9)] == [0.513, 0.632, 0.940]
    assert published(1, 0.6, 2) == pytest.approx(0.6**2 + 0.6 * 0.4 / 2)  # two alike, or unlike and the coin says right


def test_inequality_rises_as_published():
    """The Gini coefficient rises from 0.230 to 0.503, and about 224 people survive (Epstein and Axtell 1996).

    The book shows a single run. So its figures are compared with the interval in which one more run is expected.
    """
    start, end, people = (dict(zip(head.split(), map(float, row.split()), strict=True)) for head, row in _pairs())
    assert abs(start["gini"] - 0.230) < start["±"] * (start["seeds"] + 1) ** 0.5
    assert abs(end["gini"] - 0.503) < end["±"] * (end["seeds"] + 1) ** 0.5
    assert abs(people["people"] - 224) < 0.04 * 224  # the book has its land as a picture only


def _pairs() -> Iterator[tuple[str, str]]:
    lines = [line for line in SECTIONS["Sugarscape"].splitlines() if line.startswith("    ")]
    return zip(lines[::2], lines[1::2], strict=True)


def test_camps_are_at_most_as_many_as_published():
    """The camps of opinions are 1 / (2 d), rounded down, give or take less than one (Deffuant and others 2000)."""
    rows = {row["state.d"]: row for row in _table("Opinions")}
    assert [math.floor(1 / (2 * d)) for d in rows] == [5, 2, 1, 1]
    assert rows[0.5]["clusters"] == 1
    assert rows[0.5]["±"] == 0
    for d, row in rows.items():
        assert abs(row["clusters"] - math.floor(1 / (2 * d))) < 1


@pytest.mark.proof
def test_opinions_gather_as_in_a_program_without_agents():
    """A program of two loops, with random pairs one after another, gives as many camps as the scenario."""
    for row in _table("Opinions"):
        found = _estimate([_camps(300, row["state.d"], seed) for seed in range(100)])
        assert found.low - row["±"] <= row["clusters"] <= found.high + row["±"]
    large = [fmean(_camps(1000, d, seed) for seed in range(20)) for d in (0.1, 0.2, 0.3, 0.5)]
    assert large == pytest.approx([4.1, 2, 1, 1], abs=0.1)


def _camps(people: int, d: float, seed: int) -> int:
    """Return the number of clusters of at least 5 % of the people after 40 meetings of each."""
    rng = random.Random(seed)
    opinions = [rng.random() for _ in range(people)]
    for _ in range(40 * people):
        i = rng.randrange(people)
        j = (i + rng.randrange(1, people)) % people
        if abs(opinions[i] - opinions[j]) < d:
            opinions[i] = opinions[j] = (opinions[i] + opinions[j]) / 2
    order = sorted(opinions)
    cuts = [0, *(n for n in range(1, people) if order[n] - order[n - 1] > 0.04), people]
    return sum(end - start >= people / 20 for start, end in pairwise(cuts))


def test_as_many_cultures_remain_as_published():
    """Axelrod's means of ten runs (1997, table 2) are as far from ours as means of ten runs are, in 19 of 20 cases.

    In the table with 20 seeds, the interval is that of resampled means; beside ten seeds, that of Student.
    """
    for row in _table("Culture"):
        published = gallery.AXELROD[5, int(row["state.traits"])]
        assert abs(row["regions"] - published) < row["±"] * (1 + row["seeds"] / gallery.RUNS) ** 0.5
    rows = [line.strip("| ").split(" | ") for line in _compared("Culture")]
    assert {(int(row[0]), int(row[1])): float(row[2]) for row in rows} == gallery.AXELROD
    for *_, mean, _, interval in rows:
        low, high = map(float, interval.split(" to "))
        assert low <= float(mean) <= high


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_the_program_prints_the_table_of_cultures():
    """The table is what its command prints: the row of 10 features and 15 traits, which has the most unequal runs."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        head, row = printed(gallery.culture(20, pool.map, [(10, 15)])).splitlines()[::2]
    assert head in SECTIONS["Culture"]
    assert row in _compared("Culture")


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_cultures_remain_as_in_a_program_without_agents():
    """A program that draws a village for each event leaves as many regions as the scenario with its turns."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for line in _compared("Culture")[1:3]:
            features, traits, _, shown, _ = line.strip("| ").split(" | ")
            mean, half = map(float, shown.split(" ± "))
            jobs = [(int(features), int(traits), seed) for seed in range(40)]
            found = _estimate(list(pool.map(_regions_left, *zip(*jobs, strict=True))))
            assert found.low - half < mean < found.high + half


def _regions_left(features: int, traits: int, seed: int) -> float:
    """Return how many regions are left on a territory of 10 x 10 sites when no event can change anything."""
    rng, side = random.Random(seed), 10
    sites = [(x, y) for x in range(side) for y in range(side)]
    culture = {site: [rng.randrange(traits) for _ in range(features)] for site in sites}
    beside = {(x, y): [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)] for x, y in sites}
    near = {site: [other for other in others if other in culture] for site, others in beside.items()}

    def may_learn() -> bool:
        pairs = ((culture[site], culture[other]) for site in sites for other in near[site])
        return any(one != two and any(a == b for a, b in zip(one, two, strict=True)) for one, two in pairs)

    while may_learn():
        for _ in range(1000):
            site = rng.choice(sites)
            own, other, feature = culture[site], culture[rng.choice(near[site])], rng.randrange(features)
            if own != other and own[feature] == other[feature]:
                changed = rng.choice([n for n in range(features) if own[n] != other[n]])
                own[changed] = other[changed]
    left, regions = set(sites), 0
    while left:
        region = [left.pop()]
        for site in region:
            joined = [other for other in near[site] if other in left and culture[other] == culture[site]]
            region += joined
            left.difference_update(joined)
        regions += 1
    return regions


@pytest.mark.parametrize(("section", "model"), MESA)
def test_means_are_those_of_mesa(section, model):
    """Each number that a section compares differs from Mesa's by less than three standard errors of the difference.

    There are many, and some depend on each other, so one or two differ by more than two standard errors by chance.
    """
    rows = [line.strip("| ").split(" | ") for line in _compared(section)]
    assert [row[:2] for row in rows] == [[one.title, name] for one in gallery.PAIRS[model] for name in one.measured]
    for row in rows:
        (theirs, wide), (ours, half) = (map(float, shown.split(" ± ")) for shown in row[2:])
        assert abs(theirs - ours) <= 1.5 * math.hypot(wide, half), row  # each half is two standard errors


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("section", "model"), MESA)
def test_the_program_prints_the_table_beside_mesa(section, model):
    """The table of a section is what its command prints, line by line: of Mesa and of the scenario."""
    pytest.importorskip("mesa")
    (seeds,) = re.findall(rf"benchmarks\.gallery {model} --seeds (\d+)", SECTIONS[section])
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        assert printed(gallery.beside_mesa(model, int(seeds), pool.map)) in SECTIONS[section]


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_wolves_and_sheep_are_as_many_as_in_mesa():
    """In a hundred seeds that the page does not show, over 30 turns, the means of both are within 95 % intervals."""
    pytest.importorskip("mesa")
    seeds = range(41, 141)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        theirs, ours = (
            list(pool.map(gallery.trial, *zip(*[("wolf_sheep", 0, here, 30, seed) for seed in seeds], strict=True)))
            for here in (False, True)
        )
    for number in range(2):
        one, other = (_estimate([values[number] for values in side]) for side in (theirs, ours))
        assert abs(one.mean - other.mean) <= math.hypot(one.half or 0, other.half or 0)


@pytest.mark.proof
def test_segregation_is_that_of_a_program_with_the_rules_of_netlogo():
    """A program in which all who are unhappy at the end of a tick move at random gives the shares of the scenario."""
    for row in _table("Segregation"):
        found = _estimate([_alike(20, row["state.wanted"], seed) for seed in range(20)])
        assert found.low - row["±"] < row["similar"] < found.high + row["±"]
        assert row["similar"] > 0.7


def _alike(side: int, wanted: float, seed: int) -> float:
    """Return the mean share of like neighbours when everybody is content, on a grid of which a tenth is free."""
    rng = random.Random(seed)
    cells = [(x, y) for x in range(side) for y in range(side)]
    kind = {cell: rng.random() < 0.5 for cell in rng.sample(cells, side * side * 9 // 10)}

    def share(x: int, y: int) -> float:
        near = [kind[i, j] for i in (x - 1, x, x + 1) for j in (y - 1, y, y + 1) if (i, j) in kind and (i, j) != (x, y)]
        return sum(other == kind[x, y] for other in near) / len(near) if near else 1.0

    while unhappy := [cell for cell in kind if share(*cell) < wanted]:
        rng.shuffle(unhappy)
        for cell in unhappy:
            kind[rng.choice([free for free in cells if free not in kind])] = kind.pop(cell)
    return fmean(share(*cell) for cell in kind)


def _estimate(values: list[float]) -> Estimate:
    found = Estimate.of(values)
    assert found is not None
    return found


def _table(section: str) -> Table:
    """Return the table of a section, a row for each value that was varied."""
    head, *rows = [line.split() for line in SECTIONS[section].splitlines() if line.startswith("    ")]
    return [dict(zip(head, map(float, row), strict=True)) for row in rows]


def _compared(section: str) -> list[str]:
    """Return the rows of the Markdown table of a section."""
    return [line for line in SECTIONS[section].splitlines() if line.startswith("| ")][2:]


def _pictures():
    """Import docs/gallery_pictures.py."""
    spec = importlib.util.spec_from_file_location("gallery_pictures", ROOT / "docs" / "gallery_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    return pictures


@pytest.mark.proof
@pytest.mark.parametrize(
    "name",
    ["cascade", "civil_violence", "culture", "opinions", "queue", "schelling", "sugarscape", "town", "wolf_sheep"],
)
def test_the_pictures_are_what_the_scenarios_give(name):
    """Each picture of the page is drawn from runs, so it can be drawn again."""
    assert _pictures().PICTURES[name]() == (ROOT / "docs" / f"{name}.svg").read_text(encoding="utf-8")

"""What keeps the values of a scrape harmless and few."""

import re

import pytest

from sim.inspect.telemetry.catalog import CATALOG, FEW, VALUES
from sim.inspect.telemetry.sheet import OTHER, Labels, Sheet, harmless


def rows(sheet: Sheet) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the samples of a sheet by name and the values of labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in sheet.families():
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


@pytest.mark.parametrize("metric", CATALOG.values(), ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric):
    """Each name has the prefix and snake case, counters alone end in `_total`, and the help is one sentence."""
    assert re.fullmatch(r"sim(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.help[0].isupper() or metric.help.startswith("1 ")
    assert metric.help.endswith(".")
    assert all(re.fullmatch("[a-z]+", label) for label in metric.labels)
    assert not {"id", "run", "message"} & set(metric.labels)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ('"><script>', '"><script>'),  # the format escapes the quote, and nothing here is a web page
        ("a\nb", "a\\nb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("x" * 300, "x" * 99 + "…"),
        ("", ""),
    ],
)
def test_labels_are_harmless(raw, shown):
    """Control characters, marks that reorder text and lone surrogates are spelled out, and long texts are cut."""
    assert harmless(raw) == shown
    harmless(raw).encode()  # it can be


def test_values_under_one_label_are_summed():
    """Two raw names that look the same once harmless share one series, which holds both."""
    sheet = Sheet(Labels(), {})
    sheet.add("iterations", 2, "a\n")
    sheet.add("iterations", 3, "a\\n")
    sheet.most("mailbox_messages_max", 7, "b" * 200)
    sheet.most("mailbox_messages_max", 5, "b" * 201)
    found = rows(sheet)
    assert found["sim_iterations_total"] == {("a\\n",): 5}
    assert list(found["sim_mailbox_messages_max"].values()) == [7]


def test_labels_are_bounded_and_stay():
    """Beyond the most values that a label may have, the others are summed up; the first keep their series for ever."""
    labels, most = Labels(), VALUES["group"]
    for names in (range(1000), range(999, -1, -1)):
        sheet = Sheet(labels, {})
        for number in names:
            sheet.add("iterations", 1, f"g{number}")
        found = rows(sheet)["sim_iterations_total"]
        assert len(found) == most + 1
        assert found[OTHER,] == 1000 - most
        assert all(found[f"g{number}",] == 1 for number in range(most))


def test_labels_of_one_metric_do_not_crowd_out_those_of_another():
    """The words of the program have their series even if a scenario uses up what the same label may have elsewhere."""
    sheet = Sheet(Labels(), {})
    for number in range(1000):
        sheet.add("actions", 1, f"kind{number}", "ok")
    sheet.add("model_tokens", 4, "m", "input")
    assert rows(sheet)["sim_model_tokens_total"] == {("m", "input"): 4}


def test_labels_that_are_not_named_have_few_values():
    """A label without a bound of its own is bounded all the same."""
    sheet = Sheet(Labels(), {})
    for number in range(100):
        sheet.add("wakeups", 1, "sleeping", f"cause{number}")
    assert len(rows(sheet)["sim_wakeups_total"]) == FEW + 1


def test_counters_never_fall():
    """A counter that looks lower for a moment, because the run goes on while it is read, keeps its value."""
    labels: Labels = Labels()
    peaks: dict[tuple[str, tuple[str, ...]], float] = {}
    seen = []
    for value in (5, 3, 6):
        sheet = Sheet(labels, peaks)
        sheet.add("messages", value)
        sheet.add("bus_subscriptions", value)
        found = rows(sheet)
        seen.append((found["sim_messages_total"][()], found["sim_bus_subscriptions"][()]))
    assert seen == [(5, 5), (5, 3), (6, 6)]


def test_histograms_are_cumulative():
    """Buckets count what is at or below their bound, the last one everything; the sum is that of the values."""
    sheet = Sheet(Labels(), {})
    sheet.histogram("model_call_seconds", (0.5, 1.0), [1, 2, 3], 9.5, "m")
    sheet.histogram("model_call_seconds", (0.5, 1.0), [1, 0, 0], 0.5, "n")
    found = rows(sheet)
    assert found["sim_model_call_seconds_bucket"] == {
        ("m", "0.5"): 1, ("m", "1.0"): 3, ("m", "+Inf"): 6, ("n", "0.5"): 1, ("n", "1.0"): 1, ("n", "+Inf"): 1,
    }  # fmt: skip
    assert found["sim_model_call_seconds_sum"] == {("m",): 9.5, ("n",): 0.5}


def test_wrong_labels_are_refused():
    """A value with too few or too many labels is a mistake in the program, not another series."""
    with pytest.raises(ValueError, match="zip"):
        Sheet(Labels(), {}).add("actions", 1, "only one")

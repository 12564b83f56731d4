"""Makes the Grafana dashboards: `uv run python docs/dashboards.py` writes the JSON files in dashboards/.

A panel is a title, what it says, its unit, and its queries; where it stands follows from the order. The tests evaluate
each query on a real Prometheus, and compare the files with what this program makes.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

import attrs
from grafana_foundation_sdk.builders import bargauge, common, dashboard, heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    GridPos,
    Threshold,
    ThresholdsMode,
    VariableHide,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

FOLDER: Final = Path(__file__).parents[1] / "dashboards"
SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")

Kind = Literal["stat", "lines", "stack", "bars", "heat"]
WIDTH: Final[Mapping[Kind, int]] = {"stat": 4, "lines": 8, "stack": 8, "bars": 8, "heat": 8}
HEIGHT: Final[Mapping[Kind, int]] = {"stat": 4, "lines": 8, "stack": 8, "bars": 8, "heat": 8}
COLUMNS: Final = 24

Query = tuple[str, str]
"""An expression in which `%` stands for the choice of the run, and the legend."""


@attrs.frozen
class Panel:
    """One panel.

    Attributes:
        title, help: what it shows, and what to look for.
        kind: `stat` (a number), `lines`, `stack` (lines that add up), `bars` (shares of a whole), `heat`.
        unit: Grafana's name of it.
        queries: see `Query`.
        most: the end of the scale, if it has one.
    """

    title: str
    help: str
    kind: Kind
    unit: str
    queries: tuple[Query, ...]
    most: float | None = None


@attrs.frozen
class Board:
    """One dashboard: its rows by title."""

    name: str
    title: str
    help: str
    rows: Mapping[str, tuple[Panel, ...]]


def _panel(title: str, help: str, kind: Kind, unit: str, *queries: Query, most: float | None = None) -> Panel:  # noqa: A002  # Prometheus' own word
    return Panel(title, help, kind, unit, queries, most)


_RATE = "[$__rate_interval]"
_OURS = "and on (instance, job) sim_run_info%"  # other programs have metrics of that name, too

OVERVIEW = Board(
    "overview",
    "sim: overview",
    "One run: how fast it goes, what its agents do, and what holds them up. Rates are per second of real time.",
    {
        "Run": (
            _panel("Status", "What the run is now.", "stat", "none", ("sim_run_status% == 1", "{{status}}")),
            _panel("Simulated time", "How far the run is.", "stat", "dtdurations",
                   ("sim_simulated_seconds_total%", "")),
            _panel(
                "Progress", "Simulated time, as a share of the time at which the run ends.", "stat", "percentunit",
                ("sim_simulated_seconds_total% / sim_until_seconds%", ""), most=1,
            ),
            _panel(
                "Speed", "Simulated seconds per second of real time.", "stat", "none",
                (f"rate(sim_simulated_seconds_total%{_RATE})", ""),
            ),
            _panel("Iterations a second", "Of all agents.", "stat", "none",
                   (f"sum(rate(sim_iterations_total%{_RATE}))", "")),
            _panel(
                "Present step", "How long the present step has been seen under way. A step that takes seconds holds up "
                "all agents.", "stat", "s", ("sim_step_seconds%", ""),
            ),
        ),
        "Agents": (
            _panel("States", "Agents by state; a sleeping one costs nothing.", "stack", "none",
                   ("sum by (state) (sim_agents%)", "{{state}}")),
            _panel("Iterations by group", "A second.", "lines", "none",
                   (f"sum by (group) (rate(sim_iterations_total%{_RATE}))", "{{group}}")),
            _panel("Wake-ups by cause", "What ends the rest of agents, a second.", "lines", "none",
                   (f"sum by (state, cause) (rate(sim_wakeups_total%{_RATE}))", "{{state}}: {{cause}}")),
            _panel("Failed iterations", "As a share of all, by group.", "lines", "percentunit",
                   ((f"sum by (group) (rate(sim_iteration_errors_total%{_RATE})) / "
                    f"(sum by (group) (rate(sim_iterations_total%{_RATE})) > 0)"), "{{group}}"), most=1),
            _panel("Silent, restarted, crashed", "Counts since the run began.", "lines", "none",
                   ("sim_heartbeats_missed_total%", "heartbeats missed"),
                   ("sim_locks_held_total%", "iterations that last too long"),
                   ("sim_effects_overdue_total%", "effects past their deadline"),
                   ("sum(sim_restarts_total%)", "restarts"), ("sim_crashes_total%", "crashes")),
            _panel("Mailboxes", "Messages that wait, by group, and those that no agent will read.", "lines", "none",
                   ("sum by (group) (sim_mailbox_messages%)", "{{group}}"),
                   ("sim_mailbox_dropped_total%", "dropped so far"),
                   ("sim_mailbox_dead_letters_total%", "dead letters so far"),
                   ("sim_mailbox_unmatched_total%", "used by no rule so far")),
        ),
        "World": (
            _panel("Actions by kind", "That were done, a second.", "lines", "none",
                   (f'sum by (kind) (rate(sim_actions_total{{outcome="ok",%}}{_RATE}))', "{{kind}}")),
            _panel("Refused actions", "As a share of all; an agent that is refused learns why.", "lines", "percentunit",
                   ((f'(sum(rate(sim_actions_total{{outcome="refused",%}}{_RATE})) or vector(0)) / '
                    f"sum(rate(sim_actions_total%{_RATE}))"), "refused"), most=1),
            _panel("Event bus", "Events a second; what is dropped was lost by a full subscription.", "lines", "none",
                   (f"rate(sim_bus_published_total%{_RATE})", "published"),
                   (f"rate(sim_bus_delivered_total%{_RATE})", "delivered"),
                   (f"rate(sim_bus_dropped_total%{_RATE})", "dropped")),
            _panel("Messages and tools", "A second.", "lines", "none",
                   (f"rate(sim_messages_total%{_RATE})", "messages"),
                   (f"sum by (outcome) (rate(sim_tool_calls_total%{_RATE}))", "tools: {{outcome}}")),
            _panel("Effects", "Work outside: in flight now, and ended since the run began.", "lines", "none",
                   ("sum(sim_effects_in_flight%)", "in flight"), ("sim_effects_total%", "{{outcome}} so far"),
                   ("sim_effects_in_doubt%", "wait for a decision")),
            _panel("The scenario's own metrics", "The latest samples.", "lines", "none", ("sim_value%", "{{name}}")),
            _panel("Services", "Tools, tasks, memories.", "lines", "none", ("sim_service_value%", "{{name}}")),
        ),
        "Machine": (
            _panel("Memory", "Of the process.", "lines", "bytes",
                   (f"process_resident_memory_bytes% {_OURS}", "resident")),
            _panel("Processor", "Cores in use, and what of it goes into these metrics.", "lines", "none",
                   (f"rate(process_cpu_seconds_total%{_RATE}) {_OURS}", "cores"),
                   (f"rate(sim_scrape_seconds_total%{_RATE})", "scrapes")),
            _panel("Events on record", "A second.", "lines", "none",
                   (f"rate(sim_events_recorded_total%{_RATE})", "events"), (f"rate(sim_steps_total%{_RATE})", "steps")),
        ),
    },
)  # fmt: skip

RESOURCES = Board(
    "resources",
    "sim: resources",
    "What is limited: rates over rolling windows, budgets, quotas, pools. A panel is empty if the scenario has none.",
    {
        "Rates": (
            _panel("Fullest", "The agent, or group, that has used most of its limit.", "bars", "percentunit",
                   ("sim_rate_fullest_ratio%", "{{resource}} ({{scope}})"), most=1),
            _panel("Used", "Units that count in the windows now.", "lines", "none",
                   ("sim_rate_used%", "{{resource}} ({{scope}})")),
            _panel("Asked for", "Times a second that units were granted, refused, or waited for.", "lines", "none",
                   (f"sum by (resource, outcome) (rate(sim_rate_requests_total%{_RATE}))",
                    "{{resource}}: {{outcome}}")),
            _panel("Paused agents", "By reason; `resources` wait until a limit lets them continue.", "stack", "none",
                   ("sum by (reason) (sim_agents_paused%)", "{{reason}}")),
        ),
        "Budgets and quotas": (
            _panel("Fullest budget", "Share of its budget that the agent who spent most has spent.", "bars",
                   "percentunit", ("sim_budget_fullest_ratio%", "{{budget}}"), most=1),
            _panel("Spent", "By all agents, in this period.", "lines", "none",
                   ("sim_budget_spent_units%", "{{budget}}")),
            _panel("Fullest quota", "Share of its quota that the agent who holds most holds.", "bars", "percentunit",
                   ("sim_quota_fullest_ratio%", "{{quota}}"), most=1),
        ),
        "Pools": (
            _panel("Waiting", "Agents in line.", "lines", "none", ("sim_pool_queue%", "{{pool}}")),
            _panel("Level", "What is there to be taken.", "lines", "none", ("sim_pool_level%", "{{pool}}")),
            _panel("Served", "A second, and how many of them had to wait.", "lines", "none",
                   (f"rate(sim_pool_served_total%{_RATE})", "{{pool}}"),
                   (f"rate(sim_pool_waited_total%{_RATE})", "{{pool}}: waited")),
        ),
    },
)  # fmt: skip

MODELS = Board(
    "models",
    "sim: models and cost",
    "Calls of language models: how many, how long, what they cost, and what the endpoint allows.",
    {
        "Now": (
            _panel("Cost so far", "In the unit of money that prices are in.", "stat", "none",
                   ("sum(sim_model_cost_units_total%)", "")),
            _panel("Ceiling spent", "Share of what the run may spend.", "stat", "percentunit",
                   ("sim_model_spent_ratio%", ""), most=1),
            _panel("Cost per simulated hour", "At the present rate.", "stat", "none",
                   ((f"sum(rate(sim_model_cost_units_total%{_RATE})) / "
                    f"sum(rate(sim_simulated_seconds_total%{_RATE})) * 3600"), "")),
            _panel("In flight", "Calls under way.", "stat", "none", ("sim_model_calls_in_flight%", "")),
            _panel("In batches", "Requests that wait in batches, and the batches.", "stat", "none",
                   ("sim_model_batch_requests%", "requests"), ("sim_model_batches%", "batches")),
            _panel("Answered", "Share of the calls.", "stat", "percentunit",
                   ('sum(sim_model_calls_total{outcome="answered",%}) / sum(sim_model_calls_total%)', ""), most=1),
            _panel("429s a second", "Requests that the endpoint refused.", "stat", "none",
                   (f"sum(rate(sim_model_endpoint_refused_total%{_RATE}))", "")),
        ),
        "Calls": (
            _panel("Calls", "A second, by model.", "lines", "none",
                   (f"sum by (model, outcome) (rate(sim_model_calls_total%{_RATE}))", "{{model}} {{outcome}}")),
            _panel("How long calls took", "Simulated time: the median, and what one in twenty exceeds.", "lines", "s",
                   (f"histogram_quantile(0.5, sum by (le, model) (rate(sim_model_call_seconds_bucket%{_RATE})))",
                    "{{model}} median"),
                   (f"histogram_quantile(0.95, sum by (le, model) (rate(sim_model_call_seconds_bucket%{_RATE})))",
                    "{{model}} 95 %")),
            _panel("How long calls took, all models", "Calls by duration.", "heat", "s",
                   (f"sum by (le) (increase(sim_model_call_seconds_bucket%{_RATE}))", "{{le}}")),
            _panel("Requests by outcome", "A second. A call may take several; `ok` answers it.", "stack", "none",
                   (f"sum by (outcome) (rate(sim_model_requests_total%{_RATE}))", "{{outcome}}")),
            _panel("Retries", "A second, by model.", "lines", "none",
                   (f"sum by (model) (rate(sim_model_retries_total%{_RATE}))", "{{model}}")),
            _panel("Failed effects", "Calls of endpoints are effects: those that ended badly, so far.", "lines", "none",
                   ('sim_effects_total{outcome!="ok",%}', "{{outcome}}")),
        ),
        "Tokens and money": (
            _panel("Tokens", "A second.", "stack", "none",
                   (f'sum by (model, kind) (rate(sim_model_tokens_total{{kind!="cached",%}}{_RATE}))',
                    "{{model}} {{kind}}")),
            _panel("Cost by model", "So far.", "lines", "none",
                   ("sum by (model) (sim_model_cost_units_total%)", "{{model}}")),
            _panel("Fullest budget", "Share of its budget that the agent who spent most has spent.", "bars",
                   "percentunit", ("sim_budget_fullest_ratio%", "{{budget}}"), most=1),
        ),
        "Governor": (
            _panel("Requests", "Under way, and waiting for their turn.", "lines", "none",
                   ("sim_model_endpoint_in_flight%", "{{provider}} under way"),
                   ("sim_model_endpoint_waiting%", "{{provider}} waiting")),
            _panel("Limits", "What the governor allows a minute now; nothing while no limit is known.", "lines", "none",
                   ("sim_model_endpoint_requests_per_minute% < +Inf", "{{provider}} requests"),
                   ("sim_model_endpoint_tokens_per_minute% < +Inf", "{{provider}} tokens")),
            _panel("Pace", "Share of the limits in use: it falls after 429s and grows back. 0 while the breaker is "
                   "open.", "lines", "percentunit",
                   ("sim_model_endpoint_pace_ratio% * on (instance, job, provider) (1 - sim_model_endpoint_open%)",
                    "{{provider}}"), most=1),
        ),
    },
)  # fmt: skip

BOARDS: Final = (OVERVIEW, RESOURCES, MODELS)


def expression(query: str, choice: str = 'instance=~"$instance"') -> str:
    """Return a query with the choice of the run put in.

    Args:
        query: with `%` in place of it: behind the name of a metric, or within its braces.
        choice: the matcher.
    """
    parts = query.split("%")
    text = parts[0]
    for part in parts[1:]:
        text += (choice if text.endswith(",") else f"{{{choice}}}") + part
    return text


def build(board: Board) -> str:
    """Return the JSON of a dashboard."""
    builder = (
        dashboard.Dashboard(board.title)
        .uid(f"sim-{board.name}")
        .description(board.help)
        .tags(["sim"])
        .refresh("5s")
        .time("now-15m", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(dashboard.DashboardLink("sim").type(DashboardLinkType.DASHBOARDS).tags(["sim"]).keep_time(True))
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("instance")
            .label("Run")
            .query("label_values(sim_run_info, instance)")
            .datasource(SOURCE)
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .hide(VariableHide.DONT_HIDE)
        )
    )
    number, top = 1, 0
    for title, panels in board.rows.items():
        builder = builder.with_row(dashboard.Row(title).id(number).grid_pos(GridPos(h=1, w=COLUMNS, x=0, y=top)))
        number, top = number + 1, top + 1
        for panel, place in zip(panels, _places(panels, top), strict=True):
            builder = builder.with_panel(_made(panel, number, place))
            number, top = number + 1, place.y + place.h
    return JSONEncoder(sort_keys=True, indent=2).encode(builder.build()) + "\n"


def _places(panels: Iterable[Panel], top: int) -> list[GridPos]:
    """Return where panels stand: side by side as far as they fit."""
    places, x = [], 0
    for panel in panels:
        width, height = WIDTH[panel.kind], HEIGHT[panel.kind]
        if x + width > COLUMNS:
            x, top = 0, top + height
        places.append(GridPos(h=height, w=width, x=x, y=top))
        x += width
    return places


def _made(panel: Panel, number: int, place: GridPos):  # type: ignore[no-untyped-def]  # one of four builders
    builder = {"stat": _stat, "bars": _bars, "heat": _heat}.get(panel.kind, _lines)(panel)
    builder = builder.id(number).title(panel.title).description(panel.help).unit(panel.unit).grid_pos(place)
    builder = builder.datasource(SOURCE).min(0)
    if panel.most is not None:
        builder = builder.max(panel.most)
    for letter, (query, legend) in zip("ABCDEF", panel.queries, strict=False):
        target = prometheus.Dataquery().expr(expression(query)).ref_id(letter).datasource(SOURCE)
        target = target.legend_format(legend or "__auto")
        target = target.instant() if panel.kind in ("stat", "bars") else target.range()
        target = target.format(PromQueryFormat.HEATMAP if panel.kind == "heat" else PromQueryFormat.TIME_SERIES)
        builder = builder.with_target(target)
    return builder


def _stat(panel: Panel):  # type: ignore[no-untyped-def]  # a builder of the library
    return (
        stat.Panel()
        .text_mode(BigValueTextMode.NAME if panel.title == "Status" else BigValueTextMode.VALUE)
        .color_mode(BigValueColorMode.NONE)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    )


def _bars(panel: Panel):  # type: ignore[no-untyped-def]  # a builder of the library
    steps = [
        Threshold(color="green", value=None),
        Threshold(color="orange", value=0.8),
        Threshold(color="red", value=1),
    ]
    return (
        bargauge.Panel()
        .thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    )


def _heat(panel: Panel):  # type: ignore[no-untyped-def]  # a builder of the library
    return heatmap.Panel().calculate(False)


def _lines(panel: Panel):  # type: ignore[no-untyped-def]  # a builder of the library
    builder = (
        timeseries.Panel()
        .fill_opacity(40 if panel.kind == "stack" else 0)
        .line_width(1)
        .show_points(VisibilityMode.NEVER)
        .legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if panel.kind == "stack":
        builder = builder.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    return builder


def main() -> None:
    """Write all dashboards."""
    for board in BOARDS:
        (FOLDER / f"{board.name}.json").write_text(build(board), encoding="utf-8")


if __name__ == "__main__":
    main()

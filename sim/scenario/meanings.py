"""The types of fields that read arguments of actions and wake conditions, by their meaning."""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from sim.scenario import fields as f
from sim.world.action import Meaning

FIELDS: Final[Mapping[Meaning, Any]] = {
    "account": f.AccountValue,
    "answer schema": f.SchemaValue,
    "artifact": f.ArtifactValue,
    "audience": f.AudienceValue,
    "conditions": None,  # read by `sleep`: conditions are nested
    "entry": f.EntryValue,
    "event filter": f.Where,
    "extra body": f.ExtraBodyValue,
    "flag": f.FlagValue,
    "formula": f.FormulaValue,
    "history": f.HistoryValue,
    "item filter": f.ItemFilter,
    "limit": f.Limit,
    "mapping": f.MappingValue,
    "new artifact": f.TextValue,
    "number": f.NumberValue,
    "pattern": f.PatternValue,
    "place": f.PlaceValue,
    "recipient": f.RecipientValue,
    "slots": f.SlotsValue,
    "stock": f.StockValue,
    "text": f.TextValue,
    "tier": f.TierValue,
    "time": f.TimeValue,
    "tools": f.ToolsValue,
    "topic": f.TopicValue,
    "true": Literal[True],
    "value": f.Value,
    "whole number": f.WholeNumberValue,
}
"""The type of the field for each meaning."""

if missing := set(get_args(Meaning)).difference(FIELDS):
    raise AssertionError(f"no field reads arguments with the meaning {', '.join(sorted(missing))}")

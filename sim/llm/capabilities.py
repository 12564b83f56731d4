"""What the models of endpoints can do beside text: what a scenario declares, and what endpoints say for free.

Endpoints say it in their lists of models, each in its own fields. Only a field that is known to be about a need counts;
what no field mentions is not known, and the first call with the need shows it.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

import attrs

from sim.kernel.codec import Json
from sim.llm.needs import Need
from sim.llm.router import Target
from sim.llm.types import ModelError

Can = Mapping[Need, bool]
Source = Literal["scenario", "endpoint"]

_FLAGS: Final[Mapping[str, Need]] = {
    "supports_tools": "tools", "supports_function_calling": "tools", "function_calling": "tools", "tool_calls": "tools",
    "supports_structured_output": "JSON schemas", "supports_response_schema": "JSON schemas",
    "structured_outputs": "JSON schemas", "supports_streaming": "streams", "streaming": "streams",
}  # fmt: skip
"""Fields that are true or false: of Fireworks, LiteLLM, Mistral (in `capabilities`), GitHub Copilot (in `supports` of
these), and Hugging Face (for each of `providers`).
"""

_WORDS: Final[Mapping[str, Need]] = {
    "tools": "tools", "tool_use": "tools", "tool-calling": "tools", "function-calling": "tools",
    "structured_outputs": "JSON schemas", "structured-outputs": "JSON schemas", "streaming": "streams",
}  # fmt: skip
"""Words in a list of `capabilities`, `features` or `tags`: of LM Studio, GitHub Models, Novita and others. Such a list
need not have all that a model can do, so a missing word says nothing.
"""

DECLARED: Final[Mapping[Need, str]] = {"tools": "tools", "JSON schemas": "json_schemas", "streams": "streams"}
"""The keys of `models.endpoints.NAME` by which a scenario says what models can do."""


@attrs.define
class Capabilities:
    """What is known of the models of a run.

    Attributes:
        declared: by provider: what the scenario says of its models; it precedes what the endpoint says.
        said: by provider and model: what the endpoint says.
    """

    declared: Mapping[str, Can] = attrs.field(factory=dict)
    said: dict[tuple[str, str], Can] = attrs.field(factory=dict)

    def of(self, target: Target, need: Need) -> tuple[bool, Source] | None:
        """Return whether a model can do what is needed, and who says so; None if that is not known."""
        declared = self.declared.get(target.provider, {}).get(need)
        if declared is not None:
            return declared, "scenario"
        said = self.said.get((target.provider, target.model), {}).get(need)
        return None if said is None else (said, "endpoint")

    def lacking(self, target: Target, needs: Iterable[Need]) -> ModelError | None:
        """Return an error about the first need that a model is known not to fulfil; None: there is none."""
        for need in needs:
            capability = self.of(target, need)
            if capability is not None and not capability[0]:
                key = f"models.endpoints.{target.provider}.{DECLARED[need]}"
                if capability[1] == "scenario":
                    return ModelError("bad_request", f"{target} does not support {need}, as {key} says")
                return ModelError(
                    "bad_request", f"{target} does not support {need}, as the endpoint says of its models",
                    hint=f"use another model; if the endpoint is wrong, set {key} to true in the scenario",
                )  # fmt: skip
        return None

    def to_json(self, targets: Iterable[Target]) -> dict[str, dict[str, Json]]:
        """Return what is known of models, JSON-like: by model and need `can` and `by`, both None if it is not known."""
        return {
            str(target): {
                need: {"can": None, "by": None} if capability is None else {"can": capability[0], "by": capability[1]}
                for need in get_args(Need)
                for capability in [self.of(target, need)]
            }
            for target in targets
        }


def said_by(listing: object, model: str) -> dict[Need, bool]:
    """Return what a list of models (`GET /models`) says of a model. It is not trusted to have any form."""
    entries = listing.get("data") if isinstance(listing, Mapping) else listing
    models = [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []
    entry = next((one for one in models if one.get("id") == model), None)
    if entry is None:
        return {}
    needs: dict[Need, bool] = {}
    for name in ("capabilities", "features", "tags"):
        words = entry.get(name)
        if isinstance(words, list):
            needs |= {_WORDS[word]: True for word in words if isinstance(word, str) and word in _WORDS}
    places = [entry, entry.get("capabilities")]
    if isinstance(places[1], Mapping):
        places.append(places[1].get("supports"))
    for place in places:
        needs |= _flags(place)
    needs |= _by_providers(entry.get("providers"))
    return needs | _parameters(entry.get("supported_parameters"))


def is_of_ollama(listing: object) -> bool:
    """Return whether a list of models is that of Ollama, which says what they can do elsewhere."""
    entries = listing.get("data") if isinstance(listing, Mapping) else None
    return isinstance(entries, list) and any(
        isinstance(one, Mapping) and one.get("owned_by") == "library" for one in entries
    )


def said_by_ollama(shown: object) -> dict[Need, bool]:
    """Return what Ollama says of a model (`POST /api/show`): its list of capabilities is whole."""
    words = shown.get("capabilities") if isinstance(shown, Mapping) else None
    return {"tools": "tools" in words} if isinstance(words, list) and words else {}


def _flags(place: object) -> dict[Need, bool]:
    if not isinstance(place, Mapping):
        return {}
    return {need: place[name] for name, need in _FLAGS.items() if isinstance(place.get(name), bool)}


def _by_providers(providers: object) -> dict[Need, bool]:
    """Return what a router says of those to which it passes requests: what one of them can do, and what none can."""
    needs: dict[Need, bool] = {}
    for one in providers if isinstance(providers, list) else ():
        for need, can in _flags(one).items():
            needs[need] = needs.get(need, False) or can
    return needs


def _parameters(names: object) -> dict[Need, bool]:
    """Return what OpenRouter's list of parameters says: it is whole, and others lead to no model or are ignored."""
    if not isinstance(names, list) or not names:
        return {}
    needs: dict[Need, bool] = {"tools": "tools" in names}
    if "structured_outputs" in names or "response_format" not in names:  # response_format alone may be JSON of any form
        needs["JSON schemas"] = "structured_outputs" in names
    return needs

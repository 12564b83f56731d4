"""What the operator gives, and a scenario never: which models run, at which endpoint, with which key.

The key is in no text that this class makes. `scrub` takes it out of whatever comes back from an endpoint, before that
reaches the core and the record: an endpoint may repeat it, in an error or even in an answer.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from sim.errors import UsageError
from sim.kernel.codec import decode, encode

REDACTED = "[redacted]"

_SHORTEST = 6  # a secret shorter than this would be found in innocent text


@attrs.frozen
class Access:
    """How models are reached.

    Args:
        models: `PROVIDER:NAME` for all calls, or `TIER=PROVIDER:NAME`; a name may be a chain, separated by commas.
        base_url: of the endpoint; None is the provider's own.
        api_key: for the endpoint.
        headers: sent with every request.
        requests_per_minute: the endpoint's limit, if it is known.
        tokens_per_minute: the same for tokens.
    """

    models: tuple[str, ...] = ()
    base_url: str | None = attrs.field(default=None, repr=False)
    api_key: str | None = attrs.field(default=None, repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def chains(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """Return the (provider, model) pairs by tier, best first; the tier `*` stands for all.

        Raises:
            UsageError: if one is not of the form.
        """
        result: dict[str, tuple[tuple[str, str], ...]] = {}
        for text in self.models:
            tier, equals, names = text.partition("=")
            if not equals:
                tier, names = "*", text
            pairs = [name.partition(":") for name in names.split(",")]
            if not tier or not all(provider and colon and model for provider, colon, model in pairs):
                raise UsageError(f"a model is PROVIDER:NAME or TIER=PROVIDER:NAME, not {text[:80]!r}")
            unknown = next((provider for provider, _, _ in pairs if provider not in PROVIDERS), None)
            if unknown is not None:
                known = ", ".join(PROVIDERS)
                raise UsageError(f"there is no model provider {unknown[:40]!r}", hint=f"known: {known}")
            if tier in result:
                raise UsageError(f"two models are given for {'all calls' if tier == '*' else f'the tier {tier}'}")
            result[tier] = tuple((provider, model) for provider, _, model in pairs)
        return result

    @property
    def outside(self) -> bool:
        """Whether any model is at an endpoint."""
        return any(provider not in INSIDE for chain in self.chains().values() for provider, _ in chain)

    def offline(self) -> "Access":
        """Return the same models, simulated: for an estimate of what they will cost."""
        named = [
            f"{'' if tier == '*' else tier + '='}{','.join(f'simulated:{model}' for _, model in chain)}"
            for tier, chain in self.chains().items()
        ]
        return Access(tuple(named))

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be seen: the key, and what stands in headers."""
        found = [self.api_key or "", *self.headers.values()]
        words = [word for text in found for word in (text, *text.split())]
        return tuple(sorted({word for word in words if len(word) >= _SHORTEST}, key=lambda word: (-len(word), word)))

    def scrub(self, value: Any) -> Any:
        """Return a JSON-like value without the secrets."""
        data = encode(value)
        for secret in self.secrets:
            data = data.replace(encode(secret)[1:-1], REDACTED.encode())
        return decode(data)


PROVIDERS = ("scripted", "simulated", "openai")
"""Who can answer; all but the first two stand outside."""

INSIDE = ("scripted", "simulated")
"""Providers that answer in the core, in simulated time."""

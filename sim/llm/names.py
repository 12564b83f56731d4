"""The names that expressions of the rules of scripted models can use."""

NAMES = frozenset(
    {"me", "group", "now", "use", "tier", "model", "role", "text", "system", "tools", "calls", "messages", "result",
     "turn", "conversation", "state", "pi"}
)  # fmt: skip
"""The names in expressions of a rule, in addition to the captures of its patterns."""

"""What counts as a number in values of others: truth values do not."""


def is_number(value: object) -> bool:
    """Return whether a value is a number. A truth value is none, though Python has it as one."""
    return isinstance(value, int | float) and not isinstance(value, bool)

"""Text that comes from scenarios, agents and runs, and is not trusted, made harmless for people to read."""


def of_error(error: BaseException) -> str:
    """Return the type and text of an error as text that can be recorded, also if its own text cannot be made."""
    try:
        text = str(error)
    except Exception as fault:  # what an agent raises may have any `__str__`
        text = f"(its text cannot be made: {type(fault).__name__})"
    return f"{type(error).__name__}: {text}".encode(errors="replace").decode()


def plain(text: object) -> str:
    """Return text that does nothing to whoever shows it: control characters and marks that reorder text are spelled
    out, such as `\\x1b` and `\\u202e`. In HTML it has to be escaped all the same.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)

"""Text that comes from scenarios, agents and runs, and is not trusted, made harmless for people to read."""


def plain(text: object) -> str:
    """Return text that does nothing to whoever shows it: control characters and marks that reorder text are spelled
    out, such as `\\x1b` and `\\u202e`. In HTML it has to be escaped all the same.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)

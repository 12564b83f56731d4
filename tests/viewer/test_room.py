"""What a page has room for."""

from sim.inspect.viewer.room import Room
from tests.viewer.conftest import overview_of


def test_a_text_is_whole_or_left_out():
    """No text is cut; for one that does not fit, the page says where it is, and shorter ones still fit."""
    room = Room("task ID", most=10)
    assert room.take("12345678") == "12345678"
    assert room.take("123") == (
        "(left out, because the page would be too large: sim show RUN task ID has the whole text)"
    )
    assert room.take("12") == "12"
    assert room.take("1") != "1"


def test_a_long_post_is_whole(stored):
    """A post of 10,000 characters is in the overview from its first character to its last."""
    text = "x" * 9_999 + "!"
    (channel,) = overview_of(stored([(0, "a", "channel.post", {"channel": "#log", "author": "a", "text": text})]))[
        "sections"
    ]["channels"]
    assert channel["posts"][0]["text"] == [text]

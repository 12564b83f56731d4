"""What a page has room for."""

from sim.inspect.report.channels import ChannelPosts
from sim.inspect.report.room import Room


def test_a_text_is_whole_or_left_out():
    """No text is cut; for one that does not fit, the page says where it is, and shorter ones still fit."""
    room = Room("task ID", most=10)
    assert room.take("12345678") == "12345678"
    assert room.take("123") == (
        "(left out, because the page would be too large: sim show RUN task ID has the whole text)"
    )
    assert room.take("12") == "12"
    assert room.take("1") != "1"


def test_a_long_post_is_whole():
    """A post of 10,000 characters is in the report from its first character to its last."""
    posts, text = ChannelPosts(), "x" * 9_999 + "!"
    posts.add(0, "channel.post", {"channel": "#log", "author": "a", "text": text})
    found = posts.to_json()
    assert found is not None
    assert found[0]["posts"][0]["text"] == [text]

"""The view that a server follows."""

import http.client
import json
import zlib
from urllib.parse import urlsplit

import pytest

from sim.base.errors import UsageError
from sim.inspect.viewer import ViewServer
from sim.inspect.viewer.states import STATES
from sim.record import RunHeader, RunRecorder, create_run, open_run
from sim.record.unfinished import UnfinishedAnswer, write_unfinished
from tests.helpers import wait_until_durable


def get(url, path="/", **headers):
    """Ask the server for a path below an address; return the status, the headers and the body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    try:
        connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def news(url, version, **known):
    """Ask what is new."""
    query = "&".join(f"{name}={count}" for name, count in known.items())
    return json.loads(get(url, f"/news?version={version}&{query}")[2])


@pytest.fixture
def recorder(tmp_path):
    """A run under way."""
    header = RunHeader(name="town", seed=1, mode="autonomous", backend="asyncio")
    with RunRecorder(create_run(tmp_path / "runs", header, "name: town\n")) as opened:
        yield opened


def record(recorder, first, count):
    """Record events of seconds, and wait until they are on disk."""
    for number in range(first, first + count):
        data = {"from": "stopped", "to": "running", "reason": ""}
        recorder.event((number * 10**9, 0, 0, 20, number, f"agent-{number}", "agent.state", data, None))
    recorder.flush()
    wait_until_durable(recorder)


@pytest.mark.slow
def test_what_comes_later_is_followed(recorder, monkeypatch):
    """The server has what is on record when it starts, then what the writer commits, and the end of the run."""
    monkeypatch.setattr("sim.inspect.viewer.server._SECONDS", 0.0)
    record(recorder, 0, 3)
    with open_run(recorder.folder, verify=False) as run, ViewServer(run) as server:
        page = get(server.url)[2].decode()
        assert '"follows":true' in page
        assert "connect-src 'self'" in page
        assert news(server.url, 1) == {"version": 1}
        write_unfinished(recorder.folder, [UnfinishedAnswer("agent-1", "text", "It is")])
        assert news(server.url, 1) == {"version": 1, "unfinished": [["agent-1", "text", "says", "It is"]]}
        record(recorder, 3, 2)
        new = news(server.url, 1, chunks=1, names=3, topics=1)
        assert (new["events"], new["names"], new["topics"]) == (5, ["agent-3", "agent-4"], [])
        assert [chunk[2:4] for chunk in new["chunks"]] == [[4, 2]]
        frame = json.loads(zlib.decompress(get(server.url, f"/block/{new['chunks'][0][0]}")[2]))
        assert frame["keyframe"][0][:3] == [STATES.index("running")] * 3
        assert frame["actors"] == [3, 4]
        recorder.finish("finished", {}, 5 * 10**9, {})
        recorder.close()
        last = news(server.url, new["version"], chunks=2)
        assert (last["run"]["status"], last["follows"], last["chunks"]) == ("finished", False, [])
        assert "unfinished" not in last  # the record is the truth, whatever a process has left


@pytest.mark.slow
def test_the_overview_is_of_what_is_on_record_now(recorder):
    """The overview of a run under way is made when it is asked for, from all that is on record then."""
    record(recorder, 0, 3)
    with open_run(recorder.folder, verify=False) as run, ViewServer(run, opens="overview") as server:
        assert '"opens":"overview"' in get(server.url)[2].decode()
        assert json.loads(get(server.url, "/overview")[2])["numbers"]["events"] == 3
        record(recorder, 3, 2)
        found = json.loads(get(server.url, "/overview")[2])
        assert (found["run"]["status"], found["numbers"]["agents"], found["end"]) == ("running", 5, 4.0)


@pytest.mark.slow
def test_only_this_machine_is_served(recorder):
    """Requests that name another host are refused (DNS rebinding), no site can embed it, and paths are checked."""
    record(recorder, 0, 1)
    with open_run(recorder.folder, verify=False) as run, ViewServer(run) as server:
        status, headers, _ = get(server.url)
        assert (status, headers["Cross-Origin-Resource-Policy"], headers["X-Frame-Options"]) == (
            200,
            "same-origin",
            "DENY",
        )
        assert get(server.url, Host="evil.example")[0] == 403
        assert get(server.url, "/news", Host="evil.example")[0] == 403
        for path in (
            "/block/999",
            "/block/-1",
            "/block/",
            "/block/1e9",
            "/../run.db",
            "/view.html",
            "/block/" + "9" * 50,
        ):
            assert get(server.url, path)[0] == 404, path
        assert get(server.url, "/news?version=x&chunks=-1&names=" + "9" * 400)[0] == 200
        port = urlsplit(server.url).port or 0
        with pytest.raises(UsageError, match=rf"view cannot be served at http://127.0.0.1:{port}: .*in use"):
            ViewServer(run, port)


@pytest.mark.slow
def test_only_who_has_the_address_can_read(recorder):
    """All users of a machine can connect to it, so the address has a secret, another one for each server; without it,
    nothing is read, not even whether there is such a page.
    """
    record(recorder, 0, 1)
    with open_run(recorder.folder, verify=False) as run, ViewServer(run) as server, ViewServer(run) as other:
        secret = urlsplit(server.url).path.strip("/")
        assert len(secret) >= 32
        assert secret not in other.url
        bare = server.url.removesuffix(f"{secret}/")
        refused = get(bare)
        assert refused[0] == 403
        wrong = ("", f"/{secret[:-1]}", f"/{secret}x", f"/{secret.swapcase()}", "/%C3%A9")
        paths = ("/", "/news", "/block/0", "/view.html")
        for path in (*(start + end for start in wrong for end in paths), f"/{secret}", f"/?token={secret}"):
            answer = get(bare, path)
            assert (answer[0], answer[2]) == (403, refused[2]), path
        assert {get(server.url, path)[0] for path in paths[:3]} == {200}

"""What a run notes of its batches, and what it reads again after a crash."""

import pytest

from sim.base.errors import RunError, UsageError
from sim.llm.batches.lines import Result, batch_key, failure_of, read_result, request_line
from sim.llm.batches.notes import Notes
from sim.llm.batches.settings import NOTES, Batching
from sim.llm.types import ModelError


def some(folder):
    """Write notes of four batches, and return them."""
    notes = Notes("run-1", folder, now=lambda: 17.0)
    first = notes.plan("openai", "/chat/completions", "m", ("a", "b"))
    notes.uploaded(first, "file-1")
    notes.submitted(first, "batch-1")
    second = notes.plan("openai", "/chat/completions", "m", ("b", "c"))
    notes.failed(second, ModelError("rate_limit", "later", retry_after=3.0))
    notes.drop(notes.plan("openai", "/embeddings", "m", ("d",)))
    third = notes.plan("lab", "/embeddings", "n", ("b",))
    return notes, (first, second, third)


def seen(notes):
    """Return what notes say, comparable."""
    return [
        (note.number, note.provider, note.path, note.model, note.ids, note.at, note.key, note.file, note.batch,
         note.failure and (note.failure.kind, str(note.failure), note.failure.retry_after))
        for note in notes.pending
    ]  # fmt: skip


def test_notes_are_read_as_they_were_written(tmp_path):
    """A new process knows all batches with their files, ids and failures, and counts on."""
    notes, (first, *_) = some(tmp_path)
    notes.close()
    again = Notes("run-1", tmp_path)
    assert seen(again) == seen(notes)
    assert (first.file, first.batch, first.at) == ("file-1", "batch-1", 17.0)
    assert [note.number for note in again.of("b")] == [1, 2, 4]
    assert again.of("d") == ()
    assert again.plan("openai", "/chat/completions", "m", ("e",)).number == 5
    assert len({note.key for note in again.pending}) == 4
    again.clear(again.of("a")[0])
    assert [note.number for note in again.of("b")] == [2, 4]
    again.close()
    again.close()
    assert (tmp_path / NOTES).stat().st_mode & 0o777 == 0o600


def test_without_a_folder_nothing_is_kept(tmp_path):
    """Notes of a run without a folder are in memory."""
    notes, _ = some(None)
    assert len(notes.pending) == 3
    notes.close()


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_line_that_was_not_complete_is_removed(tmp_path, cut):
    """The last line can be incomplete after a crash: it counts as not written, and later notes take its place."""
    some(tmp_path)[0].close()
    path = tmp_path / NOTES
    path.write_bytes(path.read_bytes()[:-cut])
    notes = Notes("run-1", tmp_path)
    assert [note.number for note in notes.pending] == [1, 2]
    notes.plan("openai", "/chat/completions", "m", ("f",))
    notes.close()
    last = Notes("run-1", tmp_path)
    assert [note.ids for note in last.pending] == [("a", "b"), ("b", "c"), ("f",)]
    last.close()


def test_a_process_that_was_fenced_out_plans_nothing(tmp_path):
    """After another process has opened the notes, the first one cannot note, and so cannot submit, anything."""
    notes, (first, *_) = some(tmp_path)
    other = Notes("run-1", tmp_path)
    for step in (lambda: notes.plan("openai", "/chat/completions", "m", ("z",)), lambda: notes.submitted(first, "b")):
        with pytest.raises(RunError, match="taken over"):
            step()
    assert other.plan("openai", "/chat/completions", "m", ("z",)).number == 5
    notes.close()
    other.close()


@pytest.mark.parametrize("change", [b"batch-1", b"plan", b"file"])
def test_damage_is_refused(tmp_path, change):
    """A line that was changed is damage, not a crash: what was submitted is not known any more."""
    some(tmp_path)[0].close()
    path = tmp_path / NOTES
    path.write_bytes(path.read_bytes().replace(change, change[::-1], 1))
    with pytest.raises(RunError, match=r"damaged in line \d.*not known which batches"):
        Notes("run-1", tmp_path)


def test_keys_name_run_number_and_requests():
    """Two batches have the same key only if run, number and requests are the same."""
    keys = {batch_key(*one) for one in [("r", 1, ("a",)), ("r", 2, ("a",)), ("s", 1, ("a",)), ("r", 1, ("a", "b"))]}
    assert len(keys) == 4
    assert all(len(key) == 32 for key in keys)


def test_a_request_is_one_line():
    """The line has the id, the method, the path below /v1, and the body; line feeds in texts are escaped."""
    line = request_line("k", "/chat/completions", {"model": "m", "messages": [{"content": "a\nb\u2028c"}]})
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert b'"/v1/chat/completions"' in line


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("batch_expired", "timeout"), ("batch_cancelled", "server"), ("request_timeout", "timeout"),
        ("token_limit_exceeded", "rate_limit"), ("model_not_found", "not_found"), ("insufficient_quota", "quota"),
        ("what", "server"), (None, "server"), ({}, "server"),
    ],
)  # fmt: skip
def test_codes_are_classes_of_errors(code, kind):
    """The codes of the API have the class of the same failure online."""
    assert failure_of(code, "no").kind == kind


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"null", b'{"custom_id": 7}', b'{"custom_id": "a"}', b"[" * 10**6])
def test_what_is_no_result(line):
    """A line that is not a result is ignored."""
    assert read_result(line) is None


def test_a_result_is_a_body_or_an_error():
    """A status of 2xx gives the body; another status, or an error, gives the class."""
    assert read_result(b'{"custom_id": "a", "response": {"status_code": 200, "body": {"x": 1}}}') == (
        "a",
        Result({"x": 1}),
    )
    found = read_result(
        b'{"custom_id": "a", "response": {"status_code": 400, "body": {"error": {"message": "too long"}}}}'
    )
    assert found is not None
    assert found[1].error is not None
    assert (found[1].error.kind, str(found[1].error)) == ("bad_request", "400: too long")


@pytest.mark.parametrize(
    "wrong", [{"poll": 0}, {"wait": "0s"}, {"price": 1.5}, {"price": -1}, {"requests": 0}, {"bytes": 0}]
)
def test_settings_out_of_range_are_refused(wrong):
    """Each limit is above 0, and the price is a share."""
    with pytest.raises(UsageError):
        Batching(**wrong)

"""An OpenAI-compatible endpoint that answers every call at once, as a process of its own: what it costs is not counted.

`python -m benchmarks.endpoint` serves on a free port of the loopback address, prints the port, and ends with its input.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

MODEL = "bench-1"
"""The name of the model that answers."""

_LIST = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
_ANSWER = {
    "id": "answer",
    "object": "chat.completion",
    "created": 1,
    "model": MODEL,
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes " * 20}}],
    "usage": {"prompt_tokens": 600, "completion_tokens": 20, "total_tokens": 620},
}


@contextmanager
def serve() -> Iterator[str]:
    """Serve while the block runs; give the base URL."""
    command = [sys.executable, "-m", "benchmarks.endpoint"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.stdin.close()
            process.wait()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0)
            await reader.readexactly(size)
            body = json.dumps(_LIST if head.startswith(b"get") else _ANSWER).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
            writer.write(body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()  # the client has left


async def _main() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())

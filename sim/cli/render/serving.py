"""Serving a page on this machine until Ctrl-C."""

import sys
from collections.abc import Callable
from contextlib import suppress

import click

from sim.cli.render.output import print_json, say


def until_interrupted(address: str, may: str, wait: Callable[[], object], *, as_json: bool) -> None:
    """Print the address of a page that is being served, and wait until Ctrl-C.

    Args:
        address: the address.
        may: what whoever has the address can do, in words.
        wait: waits for the end of the server.
        as_json: whether to print JSON.
    """
    with suppress(KeyboardInterrupt):  # from the address on: who reads it can press Ctrl-C at once
        if as_json:
            print_json({"address": address})
        else:
            click.echo(address)
            say(f"sim: open this address in a browser; {may}; Ctrl-C ends")
        sys.stdout.flush()
        wait()

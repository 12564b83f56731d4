"""A group of commands that are imported when they are used."""

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause garbage collection during an import, and let later collections skip the objects that it made.

    An import leaves no garbage, but the collections during it took a fifth of the time until a run begins.
    """
    enabled, before = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > before:
            gc.freeze()
        if enabled:
            gc.enable()


class LateGroup(click.Group):
    """Commands of which each is the `command` of a module.

    Args:
        groups: what each command does, by name, in the groups and the order in which the help shows them.
        package: the package of the modules.
        modules: the modules of commands that do not have the name of the command.
    """

    def __init__(
        self,
        *args: Any,
        groups: Mapping[str, Mapping[str, str]],
        package: str,
        modules: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._groups, self._package, self._modules = groups, package, modules or {}
        self._names = [name for group in groups.values() for name in group]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return self._names

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command; None if there is no command of that name."""
        if name not in self._names:
            return None
        with _collection_paused():
            command: click.Command = import_module(f"{self._package}.{self._modules.get(name, name)}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest a similar one."""
        if args[0] not in self._names and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], f"unknown command {args[0]!r}", possibilities=self._names, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        for group, commands in self._groups.items():
            with formatter.section(group):
                formatter.write_dl(list(commands.items()), col_max=12)

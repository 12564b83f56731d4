"""The list of pages and tables in the help of the commands that take one."""

import click


class CommandWithTables(click.Command):
    """A command whose help lists the tables of runs, with a line for each."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of tables, then the examples."""
        import sim.inspect.analysis  # noqa: F401  # slow; it imports every family, and so registers all views
        from sim.record.views import described

        with formatter.section("Tables"):
            formatter.write_dl(sorted(described().items()))
        super().format_epilog(ctx, formatter)


class CommandWithPages(CommandWithTables):
    """A command whose help lists the pages of `sim show` as well."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists of pages and tables, then the examples."""
        from sim.cli.render.pages import PAGES

        with formatter.section("Views"):
            formatter.write_dl(
                [(f"{name} [{page.named}]" if page.named else name, page.help) for name, page in PAGES.items()]
            )
        super().format_epilog(ctx, formatter)

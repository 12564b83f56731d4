"""The list of views in the help of the commands that take one."""

import click


class CommandWithViews(click.Command):
    """A command whose help lists the views, with a line for each."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of views, then the examples."""
        import sim.inspect.analysis  # noqa: F401  # slow; it imports every family, and so registers all views
        from sim.record.views import described

        with formatter.section("Views"):
            formatter.write_dl(sorted(described().items()))
        super().format_epilog(ctx, formatter)

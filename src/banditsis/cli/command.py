"""Commands that reject repeated options, and their options."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import click


class Command(click.Command):
    """A command whose options cannot be repeated if only the last value would be used."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Raise for an option that is given twice, except for flags and lists; then parse."""
        ctx.meta["command"] = shlex.join([*ctx.command_path.split(), *args])
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        single = (parameter for parameter in order if not getattr(parameter, "multiple", False))
        values: list[Any] = [parameter for parameter in single if not getattr(parameter, "is_flag", True)]
        for parameter in values:
            if values.count(parameter) > 1 and not ctx.resilient_parsing:
                raise click.BadParameter("given more than once: give one value.", ctx, parameter)
        return super().parse_args(ctx, args)


class Group(click.Group):
    """A group of such commands, which are listed in their order and with whole sentences."""

    command_class = Command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            lines = (
                (name, command.get_short_help_str(limit=1000)) for name, command in self.commands.items()
            )
            formatter.write_dl(list(lines))


def option(*names: str, help: str, choices: Sequence[str] = (), **settings: Any) -> click.Option:
    """An option whose value must be one of ``choices``, if there are any; the shell completes them."""

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value is not None and value not in choices:
            allowed = ", ".join(map(repr, choices))
            raise click.BadParameter(f"must be one of {allowed}, got {value!r}.")
        return value

    if choices:
        settings |= {
            "callback": check,
            "shell_complete": lambda context, parameter, start: [c for c in choices if c.startswith(start)],
        }
    return click.Option(names, help=help, **settings)


def flag(*names: str, help: str, **settings: Any) -> click.Option:
    """An option without a value."""
    return click.Option(names, is_flag=True, help=help, **settings)

"""Commands that reject repeated options."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose options cannot be repeated if only the last value would be used."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raise for an option that is given twice, except for flags and lists; then parse."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        single = (parameter for parameter in order if not getattr(parameter, "multiple", False))
        values: list[Any] = [parameter for parameter in single if not getattr(parameter, "is_flag", True)]
        for parameter in values:
            if values.count(parameter) > 1 and not ctx.resilient_parsing:
                raise typer.BadParameter("given more than once: give one value.", ctx, parameter)
        return super().parse_args(ctx, args)

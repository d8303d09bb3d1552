"""Shell completion: the line that turns it on, printed or added to the shell's start-up file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from banditsis.cli.command import flag

EVALUATE = 'eval "$(_BANDITSIS_COMPLETE={}_source banditsis)"'
#: The start-up file of each shell, and the line that turns completion on.
SHELLS = {
    "bash": (".bashrc", EVALUATE.format("bash")),
    "zsh": (".zshrc", EVALUATE.format("zsh")),
    "fish": (".config/fish/config.fish", "_BANDITSIS_COMPLETE=fish_source banditsis | source"),
}


def _turn_on(context: click.Context, parameter: Any, requested: bool) -> None:
    """Print the line for the current shell, or add it to the start-up file, and exit."""
    if not requested:
        return
    shell = Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise click.UsageError(f"completion needs bash, zsh or fish; SHELL is {shell or 'not set'}.")
    file, line = Path.home() / SHELLS[shell][0], SHELLS[shell][1]
    if parameter.name == "show_completion":
        click.echo(line)
        context.exit()
    if not file.exists() or line not in file.read_text("utf-8"):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"\n{line}\n")
    click.echo(f"Completion is installed in {file}. It works in new shells.")
    context.exit()


COMPLETION: list[click.Parameter] = [
    flag(f"--{what}-completion", callback=_turn_on, is_eager=True, expose_value=False, help=help)
    for what, help in (
        ("install", "Install completion for the current shell."),
        ("show", "Show the line that turns completion on in the current shell."),
    )
]

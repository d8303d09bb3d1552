"""Words for numbers."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """How many there are of something.

    Examples
    --------
    >>> count(1, "row"), count(2500, "feature")
    ('1 row', '2,500 features')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def on_one_line(name: str) -> str:
    """A name without line breaks, which would break the rows of a table.

    Examples
    --------
    >>> on_one_line("a name\\nin two lines")
    'a name in two lines'
    """
    return " ".join(name.split()) if any(mark.isspace() and mark != " " for mark in name) else name

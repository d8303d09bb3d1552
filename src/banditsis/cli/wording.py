"""Messages in the words of the command line: the same things are called otherwise in Python."""

from __future__ import annotations

import re

_PHRASES = {
    r"open_source\(data, one_hot=True\)": "--one-hot",
    r"one_hot=True \(--one-hot\)": "--one-hot",
    r"one_hot=True": "--one-hot",
    r"pvalues=True": "--pvalues",
    r"\b(missing|statistic)='([\w-]+)'": r"--\1 \2",
    r"\brow_order='(\w+)'": r"--row-order \1",
    r"\(SIS, or Plan\.exact\)": "(--exact)",
    r"\bPlan\.exact\b(?!\()": "--exact",
    r"(?<=\()SIS(?=\))|(?<=, or )SIS(?=[).])": "--exact",
    r"\ba smaller alpha\b": "a smaller --alpha",
    r"\bmin_correlation\b": "--min-correlation",
    r"\bmemory_limit\b|\bthe memory limit\b": "--memory-limit",
}


def as_options(text: str) -> str:
    """Name options of the command line where a message names arguments of Python functions.

    Examples
    --------
    >>> as_options("use missing='pairwise', row_order='random', or read all rows (SIS).")
    'use --missing pairwise, --row-order random, or read all rows (--exact).'
    """
    for phrase, option in _PHRASES.items():
        text = re.sub(phrase, option, text)
    return text

"""Run a command as a person does, and data to run it on."""

import json

import numpy as np
from click.testing import CliRunner

from banditsis.cli.app import app

rng = np.random.default_rng(0)
N, P = 4000, 60
X = rng.standard_normal((N, P))
Y = X[:, 7] - X[:, 42] + rng.standard_normal(N)


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def printed(*arguments):
    """What a command that succeeds prints, as one line."""
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split())


def read_json(*arguments):
    """The record that a command prints with --json, and nothing else."""
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def message(code, *arguments):
    """What a command that ends with this exit code says, as one line."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    return said(result)


def said(result):
    return " ".join(result.stderr.replace("│", " ").split())


def in_file(folder, *options, target="y.npy"):
    """Arguments of screen for x.npy and a target in a folder."""
    return "screen", folder / "x.npy", "--target", folder / target, "--seed", 0, *options


def selected(record):
    return {feature["index"] for feature in record["features"]}

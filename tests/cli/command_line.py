"""Run a command as a person does, and data to run it on."""

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


def said(result):
    return " ".join(result.stderr.split())


def screened(folder, *options, target="y.npy"):
    return run("screen", folder / "x.npy", "--target", folder / target, "--seed", 0, *options)

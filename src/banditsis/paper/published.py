"""Tables 1 and 2 as they were published.

References
----------
.. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature screening,
   Table 1: n = 1000, p = 2000, 10 active features, 500 replications; Table 2: 100 users' ratings of 13,815
   movies, 636,756 features, d = 100.
"""

from __future__ import annotations

from typing import NamedTuple

REPLICATIONS = 500
N_ROWS = 1000
N_FEATURES = 2000
N_ACTIVE = 10
MODELS = ("M1", "M2", "M3", "M4")
ALPHAS = (1.5, 1.1, 0.8, 0.5)
#: Model sizes d at which P is given: 1, 2 and 3 times floor(n / log n).
SIZES = (144, 288, 432)
#: Probabilities at which quantiles of S are given.
QUANTILES = (0.05, 0.25, 0.50, 0.75, 0.95)


class Line(NamedTuple):
    """A line of Table 1.

    Attributes
    ----------
    model : str
        M1 to M4.
    alpha : float or None
        Of BanditSIS; None for SIS.
    quantiles : tuple of float
        Quantiles of S, the smallest model size that has all active features, at ``QUANTILES``.
    percentages : tuple of float
        P: in how many of a hundred data sets all active features are among the d selected, at ``SIZES``.
    """

    model: str
    alpha: float | None
    quantiles: tuple[float, ...]
    percentages: tuple[float, ...]

    @property
    def method(self) -> str:
        """Name of the method, as in the paper."""
        return "SIS" if self.alpha is None else f"BanditSIS (α={self.alpha})"


TABLE1 = (
    Line("M1", None, (10, 10, 10, 10, 10), (100, 100, 100)),
    Line("M1", 1.5, (10, 10, 10, 10, 894), (89.8, 94, 95.2)),
    Line("M1", 1.1, (10, 10, 10, 10, 188.3), (97.2, 97.8, 98.6)),
    Line("M1", 0.8, (10, 10, 10, 10, 10), (99.8, 99.8, 99.8)),
    Line("M1", 0.5, (10, 10, 10, 10, 10), (100, 100, 100)),
    Line("M2", None, (10, 10, 10, 11, 471.3), (92.2, 93.4, 94.6)),
    Line("M2", 1.5, (10, 10, 61, 1336, 2000), (60, 65.6, 69.6)),
    Line("M2", 1.1, (10, 10, 10, 599, 2000), (71.4, 75, 76.8)),
    Line("M2", 0.8, (10, 10, 10, 87, 2000), (78.2, 80, 82.8)),
    Line("M2", 0.5, (10, 10, 10, 11, 2000), (85, 86.8, 87.8)),
    Line("M3", None, (10, 10, 10, 10, 10), (99.8, 100, 100)),
    Line("M3", 1.5, (10, 10, 271, 894, 2000), (57.6, 68.2, 74.4)),
    Line("M3", 1.1, (10, 10, 10, 402, 2000), (77, 82.8, 85.4)),
    Line("M3", 0.8, (10, 10, 10, 10, 1336), (90.6, 92.4, 93.4)),
    Line("M3", 0.5, (10, 10, 10, 10, 10), (98.4, 98.4, 98.8)),
    Line("M4", None, (10, 10, 10, 10, 10), (100, 100, 100)),
    Line("M4", 1.5, (10, 10, 184, 451.3, 1336), (66.6, 80.4, 86.2)),
    Line("M4", 1.1, (10, 10, 10, 126, 916.1), (84.6, 90.8, 93.6)),
    Line("M4", 0.8, (10, 10, 10, 10, 402), (96.8, 97.8, 98.8)),
    Line("M4", 0.5, (10, 10, 10, 10, 10), (99.6, 100, 100)),
)


class UsersLine(NamedTuple):
    """A line of Table 2: means over 100 users, and standard deviations.

    Attributes
    ----------
    alpha : float or None
        Of BanditSIS; None for SIS.
    r2, mae : (float, float)
        R² and mean absolute error on the 30% of the movies that were left out: mean and deviation.
    seconds : float
        Time of screening for all users.
    """

    alpha: float | None
    r2: tuple[float, float]
    mae: tuple[float, float]
    seconds: float

    @property
    def method(self) -> str:
        """Name of the method, as in the paper."""
        return "SIS" if self.alpha is None else f"BanditSIS (α={self.alpha})"

    @property
    def key(self) -> str:
        """Name of the method in files."""
        return "SIS" if self.alpha is None else f"BanditSIS_{self.alpha}"


N_USERS = 100
TABLE2 = (
    UsersLine(None, (0.5727, 0.1782), (0.3400, 0.1330), 11718.9),
    UsersLine(1.5, (0.5706, 0.1806), (0.3407, 0.1335), 227.2),
    UsersLine(1.1, (0.5702, 0.1813), (0.3406, 0.1338), 272.9),
    UsersLine(0.5, (0.5717, 0.1807), (0.3402, 0.1337), 637.2),
)

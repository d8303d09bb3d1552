"""Small p-values of skewed and heavy-tailed data: equal to those of permutations, valid under the null."""

import numpy as np
import pytest
from scipy import stats

from banditsis import Plan, screen
from banditsis.statistics.saddlepoint import Atoms, Sample, ScoreParts, TailTest, find_atoms


def exact(x, y, **options):
    return screen(x, y, Plan.exact(*x.shape, 1), **{"pvalues": True, **options})


def rare(generator, n, p=1):
    """Genotypes with minor allele frequency 2%, and 5% cases."""
    return generator.binomial(2, 0.02, (n, p)).astype(np.float64), generator.random(n) < 0.05


def survival(generator, n):
    """Times of which 10% are events."""
    time, censoring = generator.exponential(size=n), generator.exponential(1 / 9, n)
    return np.column_stack([np.minimum(time, censoring), time < censoring])


DRAWS = {
    "rare cases": lambda g, n: (rare(g, n)[0][:, 0], g.permutation(n) < n // 20),
    "t with 3 degrees of freedom": lambda g, n: (g.standard_t(3, n), g.standard_t(3, n)),
    "exponential": lambda g, n: (g.exponential(size=n), g.exponential(size=n)),
    "normal response": lambda g, n: ((g.random(n) < 0.02) * 1.0, g.standard_normal(n)),
    "normal feature": lambda g, n: (g.standard_normal(n), g.exponential(size=n) ** 2),
}


@pytest.mark.parametrize("name", DRAWS)
def test_pvalues_are_those_of_permutations(name):
    generator = np.random.default_rng(0)
    n, times = 300, 80_000
    x, y = DRAWS[name](generator, n)
    g, found = x - x.mean(), []
    for _ in range(times // 2000):
        orders = generator.permuted(np.tile(np.arange(n), (2000, 1)), axis=1).astype(np.int16)
        found.append(np.abs(y[orders] @ g))
        if len(found) == 1:
            kept = orders
    sizes = np.concatenate(found)
    for rank in (1, 5, 50):  # among the first 2,000, whose orders are known
        row = np.argsort(-found[0])[rank - 1]
        larger = np.count_nonzero(sizes >= found[0][row] * (1 - 1e-9))
        log10, error = np.log10(larger / sizes.size), 0.45 / np.sqrt(larger)
        if log10 < np.log10(0.05):  # otherwise it is not checked
            result = exact(x[:, None], y[kept[row]] * 1.0)
            assert abs(result.log10_pvalues[0] - log10) < 0.06 - 0.05 * log10 + 3 * error


def test_two_rare_binary_variables_have_nearly_the_exact_pvalue():
    n = 1000
    for cases, carriers in ((50, 20), (20, 40), (300, 15)):
        y = np.arange(n) < cases
        mean = cases * carriers / n
        for both in range(int(mean + 3), min(cases, carriers, 12)):
            x = np.zeros((n, 1))
            x[:both] = x[n - carriers + both :] = 1
            counts = np.arange(carriers + 1)
            tail = np.abs(counts - mean) >= both - mean - 1e-9
            log10 = np.log10(stats.hypergeom(n, cases, carriers).pmf(counts)[tail].sum())
            for statistic in ("logistic", "anova") if log10 < -1.5 else ():
                found = exact(x, y, statistic=statistic).log10_pvalues[0]
                assert abs(found - log10) < 0.05 - 0.03 * log10


NULLS = {
    "logistic": lambda g, n, p: rare(g, n, p),
    "anova": lambda g, n, p: (rare(g, n, p)[0], np.where(g.random(n) < 0.07, "a", "b")),
    "cox": lambda g, n, p: (rare(g, n, p)[0], survival(g, n)),
    "pearson": lambda g, n, p: (g.standard_t(3, (n, p)), g.standard_t(3, n)),
    "poisson": lambda g, n, p: (g.standard_normal((n, p)), g.negative_binomial(0.5, 0.2, n)),
}


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("statistic", NULLS)
def test_pvalues_hold_under_the_null(statistic, given):
    found = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        x, y = NULLS[statistic](generator, 600, 1500)
        z = generator.standard_normal((600, 1)) if given else None
        found.append(exact(x, y, statistic=statistic, covariates=z).pvalues)
    p = np.concatenate(found)
    for level in (0.01, 0.001, 0.0001):
        assert np.mean(p <= level) <= 1.15 * level + 3 * np.sqrt(level / p.size)
    assert np.mean(p <= 0.01) >= 0.003  # and they are not useless


@pytest.mark.parametrize("statistic", ["logistic", "anova", "pearson"])
def test_small_pvalues_that_were_not_checked_are_not_known(statistic):
    n_found = 0
    for seed in range(5):
        x, y = NULLS[statistic](np.random.default_rng(seed), 500, 400)
        found = exact(x, y, statistic=statistic, pvalues=False)
        checked = exact(x, y, statistic=statistic)
        unknown = np.isnan(found.pvalues)
        np.testing.assert_array_equal(found.log10_pvalues[~unknown], checked.log10_pvalues[~unknown])
        assert not unknown[found.selected].any()
        assert 500 * (1 + unknown.sum()) == checked.evidence.cells_reread
        assert set(found.select(0.1)) <= set(checked.select(0.1))
        assert f"small p-values of {unknown.sum()} features are not available" in str(found)
        assert found.to_frame(all_features=True)["adjusted_pvalue"].isna().sum() == unknown.sum()
        n_found += len(checked.select(0.1))
    assert n_found <= 1


def test_normal_data_keep_their_pvalues():
    generator = np.random.default_rng(3)
    x = generator.standard_normal((300, 2000))
    y = x[:, 0] + 0.3 * x[:, 1] + generator.standard_normal(300)
    result = exact(x, y)
    np.testing.assert_allclose(result.pvalues, stats.pearsonr(x, y[:, None]).pvalue, rtol=1e-9)
    assert result.evidence.cells_reread == 0  # normal residuals make any score normal
    assert not result.notes
    assert result.cells_read == x.size


@pytest.mark.parametrize("sample", ["two values", "normal", "heavy", "large"])
def test_far_tails_are_finite_and_monotone(sample):
    generator, n = np.random.default_rng(1), 20_000 if sample == "large" else 500
    heavy, normal = generator.standard_t(2, n), generator.standard_normal(n)
    y = {"two values": (np.arange(n) < 10) * 1.0, "heavy": heavy}.get(sample, normal)
    distribution = Sample((y - y.mean()) / y.std())
    for x in ((generator.random(n) < 0.01) * 1.0, generator.standard_t(2, n)):
        g = find_atoms((x - x.mean()) / np.sqrt(n) / x.std())
        logs = [distribution.log_pvalue_of_sum(g, z) for z in np.linspace(0.5, 60, 120)]
        assert np.isfinite(logs).all()
        assert (np.diff(logs) <= 1e-6).all()
        assert distribution.log_pvalue_of_sum(g, 0.0) == 0


def test_a_perfect_copy():
    y = np.arange(300) < 15
    for statistic in ("logistic", "anova", "pearson"):
        result = exact(np.column_stack([y, 1 - y]) * 1.0, y * 1.0, statistic=statistic)
        assert (result.log10_pvalues > -60).all()
        assert (result.log10_pvalues < -20).all()  # 1 / (300 choose 15) is 1e-25


@pytest.mark.parametrize("cases", [126, 210])
def test_far_tails_are_near_the_score_test_and_in_the_order_of_the_scores(cases):
    """For orders of one genotype column, from no association to a strong one."""
    generator, n = np.random.default_rng(3), 420
    y = np.arange(n) >= cases
    genotypes = generator.binomial(2, 0.39, n) * 1.0
    x = np.array([generator.permutation(genotypes) for _ in range(80)])
    for k, column in enumerate(x[10:]):
        chosen = np.sort(generator.choice(n, 6 * k, replace=False))
        column[chosen] = np.sort(column[chosen])[::-1]
    r = np.array([np.corrcoef(column, y)[0, 1] for column in x])
    order, score_test = np.argsort(np.abs(r)), stats.chi2(1).logsf(n * r**2) / np.log(10)
    assert r.min() < -0.6
    for statistic in ("pearson", "anova", "logistic"):
        log10 = exact(x.T, y, statistic=statistic).log10_pvalues
        assert (np.diff(log10[order]) <= 1e-9).all()
        for target in (-0.45, -0.59):  # log10 p is about -19.2 and -33.1
            near = np.argmin(np.abs(r - target))
            student = stats.pearsonr(x[near], y).pvalue  # smaller than the score test in the far tail
            usual = score_test[near] if statistic == "logistic" else np.log10(student)
            assert usual - 1e-9 <= log10[near] <= 0.97 * score_test[near]


def test_pvalues_do_not_depend_on_units():
    x, y = NULLS["pearson"](np.random.default_rng(4), 300, 400)
    expected = exact(x, y).log10_pvalues
    for a, b in ((1e-200, 1.0), (1e200, 1e-150), (-3.0, 1e150)):
        np.testing.assert_allclose(exact(a * x, b * y).log10_pvalues, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(exact(x + 1e3, y - 1e3).log10_pvalues, expected, rtol=1e-6, atol=1e-9)
    x, y = rare(np.random.default_rng(0), 500, 300)
    whole = exact(x, y, statistic="logistic")
    assert "raised" in str(whole)
    for other in (x.astype(np.int8), 2 - x, x.astype(np.float32) / 3):
        found = exact(other, y, statistic="logistic").log10_pvalues
        np.testing.assert_allclose(found, whole.log10_pvalues, rtol=1e-5, atol=1e-8)


def test_several_responses():
    x, _ = rare(np.random.default_rng(0), 500, 300)
    y = np.random.default_rng(1).random((500, 3)) < [0.03, 0.5, 0.1]
    together = screen(x, y, Plan.exact(500, 300, 1), statistic="logistic", pvalues=True)
    for k, found in enumerate(together):
        alone = exact(x, y[:, k], statistic="logistic")
        np.testing.assert_allclose(found.log10_pvalues, alone.log10_pvalues, rtol=1e-9)
        assert found.evidence.cells_reread == alone.evidence.cells_reread
    assert "raised" in str(together[0])


@pytest.mark.parametrize("statistic", NULLS)
def test_missing_values_are_left_out(statistic):
    generator = np.random.default_rng(7)
    x, y = NULLS[statistic](generator, 500, 200)
    gaps = np.where(np.arange(500)[:, None] < 400, x, np.nan)
    found = exact(gaps, y, statistic=statistic, missing="pairwise")
    few = exact(x[:400], y[:400], statistic=statistic)
    rtol = 0.3 if statistic in ("logistic", "poisson") else 1e-6  # their null models are those of all rows
    np.testing.assert_allclose(found.log10_pvalues, few.log10_pvalues, rtol=rtol, atol=1e-9)


def test_a_single_random_sample_has_pvalues():
    x, y = rare(np.random.default_rng(0), 2000, 300)
    plan = Plan.subsample(2000, 300, 5, 800)
    options = {"statistic": "logistic", "row_order": "stored"}
    found, final = (screen(x, y, plan, pvalues=pvalues, **options) for pvalues in (False, True))
    first = screen(x[:800], y[:800], Plan.exact(800, 300, 5), statistic="logistic")
    np.testing.assert_allclose(found.log10_pvalues, first.log10_pvalues, rtol=1e-9)
    assert found.evidence.cells_reread == first.evidence.cells_reread
    whole, chosen = exact(x, y, statistic="logistic").log10_pvalues, final.selected
    np.testing.assert_allclose(final.log10_pvalues[chosen], whole[chosen], rtol=0.3, atol=0.1)
    assert np.isnan(np.delete(final.pvalues, chosen)).all()


@pytest.mark.parametrize("given", [False, True])
def test_three_or_more_classes_are_not_checked(given):
    generator = np.random.default_rng(0)
    x, y = generator.exponential(size=(600, 5)) ** 2, np.arange(600) % 3
    x[y == 2, 0] += 20
    result = exact(x, y, statistic="anova", covariates=generator.standard_normal(600) if given else None)
    assert "three or more classes" in " ".join(result.notes)
    assert result.evidence.cells_reread == 0
    if not given:
        expected = stats.f_oneway(*(x[y == c] for c in range(3))).pvalue
        np.testing.assert_allclose(result.pvalues, expected, rtol=1e-9)
    two = exact(x, y > 1, statistic="anova")
    assert two.evidence.cells_reread > 0
    assert "three or more classes" not in " ".join(two.notes)


def test_counts_that_vary_less_than_the_model_says():
    x, even = np.random.default_rng(5).standard_normal((400, 30)), np.tile([3, 4], 200)
    r = np.corrcoef(x[:, 0], even)[0, 1]
    found = exact(x, even, statistic="poisson").pvalues[0]
    assert found == pytest.approx(2 * stats.norm.sf(abs(r) * np.sqrt(399)))
    x[::2, 1] = np.nan  # all are equal where the feature is present
    found = exact(x, even, statistic="poisson", missing="pairwise").pvalues
    assert found[1] == 1
    assert (found[[0, 2]] < 1).all()


def test_a_constant_response_or_feature_keeps_its_pvalue():
    x = np.random.default_rng(0).exponential(size=50)
    assert TailTest(ScoreParts(np.ones((50, 1)))).log_pvalue(x, -3.0) == -3.0
    assert TailTest(ScoreParts(x[:, None])).log_pvalue(np.ones(50), -3.0) == -3.0


rng = np.random.default_rng(0)
MANY = {
    "normal": rng.standard_normal(20_000),
    "cauchy": rng.standard_cauchy(20_000),
    "mostly zeros": np.where(rng.random(20_000) < 0.8, 0.0, rng.standard_exponential(20_000)),
    "1,025 values": np.arange(20_000) % 1025 * 1.0,
    "float32": rng.standard_t(3, 20_000).astype(np.float32),
}


@pytest.mark.parametrize("name", MANY)
def test_groups_hardly_change_pvalues(name):
    sample, y = MANY[name].astype(np.float64), np.exp(rng.standard_normal(20_000))
    g = (sample - sample.mean()) / sample.std() / np.sqrt(20_000)
    drawn = Sample((y - y.mean()) / y.std())
    for z in (2.0, 5.0, 12.0):
        expected = drawn.log_pvalue_of_sum(Atoms(np.sort(g), np.ones(20_000), 0.0), z)
        assert drawn.log_pvalue_of_sum(find_atoms(g), z) == pytest.approx(expected, rel=1e-3)

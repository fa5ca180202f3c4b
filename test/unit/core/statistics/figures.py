"""Computes figures of published statistics packages, which the tests of src/shared/statistics compare with.

    pip install numpy==2.4.6 scipy==1.17.1 statsmodels==0.15.0 evalsig==0.1.2 ppi-python==0.2.3
    python figures.py > figures.json
"""
import itertools
import json
import math

import numpy as np
from evalsig.inference.mcnemar import mcnemar_test
from scipy import optimize, stats
from statsmodels.api import WLS
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.proportion import proportion_confint, score_test_proportions_2indep

LEVELS = (0.05, 0.025, 0.001)


def distributions():
    probabilities = (1e-12, 1e-4, 0.025, 0.05, 0.3, 0.7, 0.95, 0.999)
    shapes = [(1, 20), (3, 298), (0.5, 2.5), (60, 2941), (1500, 1500), (12.3, 45.6)]
    counts = [(0, 20, 0.01), (3, 300, 0.02), (40, 3000, 0.01), (150, 300, 0.5), (2990, 3000, 0.995)]
    return {
        "normal_quantile": [[p, stats.norm.ppf(p)] for p in probabilities],
        "normal_cdf": [[x, stats.norm.cdf(x)] for x in (-10, -4, -3, -1.5, -0.1, 0, 0.7, 2.9, 3.1, 6)],
        "beta_quantile": [[p, a, b, stats.beta.ppf(p, a, b)] for p in probabilities for a, b in shapes],
        "beta_cdf": [[x, a, b, stats.beta.cdf(x, a, b)] for x in (1e-4, 0.01, 0.2, 0.5, 0.9) for a, b in shapes],
        "binomial_probability": [[k, n, p, stats.binom.pmf(k, n, p)] for k, n, p in counts],
        "binomial_cdf": [[k, n, p, stats.binom.cdf(k, n, p)] for k, n, p in counts],
        "student_quantile": [[p, d, stats.t.ppf(p, d)] for p in (0.001, 0.05, 0.6, 0.975) for d in (1, 4, 19, 300.5)],
    }


def shares():
    counts = [(0, 20), (1, 20), (3, 300), (15, 20), (20, 20), (45, 1000)]
    for hits, of in counts:
        wilson = proportion_confint(hits, of, 0.05, "wilson")
        for alpha in LEVELS:
            exact = proportion_confint(hits, of, 2 * alpha, "beta")
            yield {"hits": hits, "of": of, "alpha": alpha, "wilson": wilson, "exact": exact}


def score_bounds(score, estimate, alpha):
    z = stats.norm.ppf(alpha)
    lower = optimize.brentq(lambda d: score(d) + z, estimate - 0.25, estimate - 1e-6, xtol=1e-11)
    upper = optimize.brentq(lambda d: score(d) - z, estimate + 1e-6, estimate + 0.25, xtol=1e-11)
    return [lower, upper]


def independent_score(m, n, a, b, difference):
    """Returns the score statistic, with the shares found by a numerical search, and the shares."""
    low, high = max(0, -difference), min(1, 1 - difference)

    def likelihood(p):
        q = p + difference
        return -(stats.binom.logpmf(a, m, p) + stats.binom.logpmf(b, n, q))

    p = optimize.minimize_scalar(likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).x
    q = p + difference
    variance = (p * (1 - p) / m + q * (1 - q) / n) * (m + n) / (m + n - 1)
    return (b / n - a / m - difference) / math.sqrt(variance), p, q


def paired_score(n, a, b, difference):
    low, high = max(0, -difference), (1 - difference) / 2

    def likelihood(p):
        q = p + difference
        return -stats.multinomial.logpmf([a, b, n - a - b], n, [p, q, 1 - p - q])

    p = optimize.minimize_scalar(likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).x
    q = p + difference
    return (b - a - n * difference) / math.sqrt(n * (p + q - difference**2)), p, q


def estimated_p_value(score, probability, tables, a, b, difference):
    """Returns the probability of all tables whose score is at most the observed one, at the observed one's shares."""
    z, p, q = score(a, b, difference)
    return sum(probability(x, y, p, q) for x, y in tables if score(x, y, difference)[0] <= z + 1e-7)


def share_differences():
    """
    Score bounds of many counts. statsmodels 0.15.0 finds wrong shares for a difference other than 0 (its issue 10269), so the
    shares are searched for, and its p-value is that of a difference of 0.
    """
    samples = [((60, 300), (75, 320)), ((200, 2000), (230, 1500)), ((30, 3000), (80, 3000)), ((900, 1000), (600, 900))]
    for (a, m), (b, n) in samples:
        score = lambda d: independent_score(m, n, a, b, d)[0]
        alternative = "larger" if b / n > a / m else "smaller"
        zero = score_test_proportions_2indep(b, n, a, m, value=0, alternative=alternative).pvalue
        for alpha in LEVELS:
            ends = score_bounds(score, b / n - a / m, alpha)
            yield {"kind": "independent", "counts": [a, m, b, n], "alpha": alpha, "ends": ends, "p_value": zero}
    for a, b, n in [(60, 75, 300), (0, 120, 400), (200, 150, 3000)]:
        for alpha in LEVELS:
            ends = score_bounds(lambda d: paired_score(n, a, b, d)[0], (b - a) / n, alpha)
            yield {"kind": "paired", "counts": [a, b, n], "alpha": alpha, "ends": ends}


def few_counts():
    """Upper ends by brute force over all tables."""
    for a, m, b, n in [(1, 12, 3, 15), (0, 10, 0, 14), (2, 15, 2, 15)]:
        tables = list(itertools.product(range(m + 1), range(n + 1)))
        score = lambda x, y, d: independent_score(m, n, x, y, d)
        probability = lambda x, y, p, q: stats.binom.pmf(x, m, p) * stats.binom.pmf(y, n, q)
        for difference in (0.25, 0.4):
            p_value = estimated_p_value(score, probability, tables, a, b, difference)
            yield {"kind": "independent", "counts": [a, m, b, n], "difference": difference, "p_value": p_value}
    for a, b, n in [(0, 1, 12), (1, 3, 14), (2, 2, 16)]:
        tables = [(x, y) for x in range(n + 1) for y in range(n + 1 - x)]
        score = lambda x, y, d: paired_score(n, x, y, d)
        probability = lambda x, y, p, q: stats.multinomial.pmf([x, y, n - x - y], n, [p, q, 1 - p - q])
        for difference in (0.25, 0.4):
            p_value = estimated_p_value(score, probability, tables, a, b, difference)
            yield {"kind": "paired", "counts": [a, b, n], "difference": difference, "p_value": p_value}


def mcnemars():
    for a, b in [(0, 6), (3, 3), (1, 7), (4, 19), (120, 170)]:
        table = [[50, a], [b, 50]]
        found = {"counts": [a, b], "statsmodels": mcnemar(table, exact=True).pvalue}
        if a + b <= 25:
            before, after = [1] * a + [0] * b, [0] * a + [1] * b
            found["evalsig"] = mcnemar_test(np.array(before), np.array(after)).p_value
        yield found


def kappas():
    for table in [[[20, 5], [10, 15]], [[10, 5, 0], [3, 12, 4], [1, 2, 9]]]:
        for weights in ("none", "linear", "quadratic"):
            wt = None if weights == "none" else weights
            wider = cohens_kappa(np.array(table) + 2 / len(table) ** 2, wt=wt)
            yield {"table": table, "weights": weights, "value": cohens_kappa(table, wt=wt).kappa,
                   "low": wider.kappa_low, "high": wider.kappa_upp}


def weighted():
    random = np.random.default_rng(5)
    for size in (8, 60):
        weights = random.choice([1.0, 4.0, 20.0], size)
        hits = (random.random(size) < 0.3).astype(float)
        fit = WLS(hits, np.ones(size), weights=weights).fit(cov_type="HC0")
        share, variance = fit.params[0], fit.cov_params()[0, 0]
        effective = weights.sum() ** 2 / (weights**2).sum()
        yield {
            "hits": hits,
            "weights": weights,
            "share": share,
            "of": min(effective, share * (1 - share) / variance),
        }


figures = {
    "distributions": distributions(),
    "shares": list(shares()),
    "share_differences": list(share_differences()),
    "few_counts": list(few_counts()),
    "mcnemar": list(mcnemars()),
    "kappa": list(kappas()),
    "weighted": list(weighted()),
}
print(json.dumps(figures, default=lambda array: array.tolist()))

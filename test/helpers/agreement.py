"""Computes agreement statistics with scikit-learn and SciPy. Each line of standard input is a JSON list of tables of labels and
verdicts, each line of output the list of their figures."""
import json
import math
import sys
import warnings

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, cohen_kappa_score, confusion_matrix, f1_score, recall_score

warnings.simplefilter("ignore")


def wilson(hits, of):
    if of == 0:
        return None
    interval = binomtest(int(hits), int(of)).proportion_ci(method="wilson")
    return [hits / of, interval.low, interval.high]


def kappa(labels, verdicts, values, weights):
    # scikit-learn derives the matrix from the first rater's classes. Passing all values fixes its order and size.
    value = cohen_kappa_score(labels, verdicts, labels=values, weights=weights)
    return None if math.isnan(value) else value


def jackknife_error(labels, verdicts, values, weights):
    """Returns the jackknife standard error of kappa, which leaves out one item at a time."""
    matrix = confusion_matrix(labels, verdicts, labels=values)
    n = matrix.sum()
    estimates, times = [], []
    for i in range(len(values)):
        for j in range(len(values)):
            if matrix[i, j] == 0:
                continue
            less = matrix.copy()
            less[i, j] -= 1
            rows = np.repeat(values, less.sum(axis=1))
            columns = np.concatenate([np.repeat(values, row) for row in less])
            estimates.append(cohen_kappa_score(rows, columns, labels=values, weights=weights))
            times.append(matrix[i, j])
    estimates, times = np.array(estimates), np.array(times)
    mean = (estimates * times).sum() / n
    return math.sqrt((n - 1) / n * (times * (estimates - mean) ** 2).sum())


def figures(case):
    labels, verdicts, values = case["labels"], case["verdicts"], case["values"]
    positive = values[0]
    is_positive = [label == positive for label in labels]
    called = [verdict == positive for verdict in verdicts]
    hits = sum(a and b for a, b in zip(is_positive, called))
    rejections = sum(not a and not b for a, b in zip(is_positive, called))
    result = {
        "agreement": wilson(sum(a == b for a, b in zip(labels, verdicts)), len(labels)),
        "accuracy": accuracy_score(labels, verdicts),
        "confusion": confusion_matrix(labels, verdicts, labels=values).tolist(),
        "tpr": wilson(hits, sum(is_positive)),
        "tnr": wilson(rejections, len(labels) - sum(is_positive)),
        "recall": recall_score(is_positive, called),
        "f1": f1_score(labels, verdicts, labels=values, average=None).tolist(),
    }
    for name, weights in (("none", None), ("linear", "linear"), ("quadratic", "quadratic")):
        value = kappa(labels, verdicts, values, weights)
        error = None if value is None else jackknife_error(labels, verdicts, values, weights)
        result[f"kappa_{name}"] = None if value is None else [value, error]
    return result


for line in sys.stdin:
    print(json.dumps([figures(case) for case in json.loads(line)]), flush=True)

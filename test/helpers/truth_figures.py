"""Computes figures of labeled predictions with scikit-learn and pandas: a JSON list of cases on standard input, that of their
figures on standard output. What is not defined is null."""
import json
import math
import sys
import warnings

import numpy as np
import pandas as pd
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    mean_absolute_error,
    mean_squared_error,
    precision_recall_fscore_support,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

warnings.simplefilter("ignore")


def known(value):
    return None if value is None or not math.isfinite(value) else float(value)


def auc(*args, **kwargs):
    try:
        return known(roc_auc_score(*args, **kwargs))
    except ValueError:
        return None


def classes(case):
    labels, predictions = case["labels"], case["predictions"]
    names = sorted(set(labels) | set(predictions))
    each = precision_recall_fscore_support(labels, predictions, labels=names, zero_division=np.nan)
    found = {
        "accuracy": known(accuracy_score(labels, predictions)),
        "each": {
            name: [known(each[0][k]), known(each[1][k]), known(each[2][k]), int(each[3][k])] for k, name in enumerate(names)
        },
        "names": names,
        "confusion": confusion_matrix(labels, predictions, labels=names).tolist(),
    }
    for average in ("macro", "weighted"):
        values = precision_recall_fscore_support(labels, predictions, average=average, zero_division=0)
        found[average] = [known(value) for value in values[:3]]
    if "score" in case:
        found["auc"] = auc([label == case["positive"] for label in labels], case["score"])
    if "scores" in case:
        columns, scores = case["columns"], np.array(case["scores"])
        found["auc"] = auc(labels, scores, multi_class="ovr", labels=columns)
        found["aucs"] = [auc([label == name for label in labels], scores[:, k]) for k, name in enumerate(columns)]
    return found


def numbers(case):
    labels, predictions = case["labels"], case["predictions"]
    r2 = r2_score(labels, predictions, force_finite=False) if len(labels) > 1 else None
    return {
        "mae": known(mean_absolute_error(labels, predictions)),
        "rmse": known(root_mean_squared_error(labels, predictions)),
        "mse": known(mean_squared_error(labels, predictions)),
        "r2": known(r2),
        "bias": known((pd.Series(predictions) - pd.Series(labels)).mean()),
    }


def groups(case):
    """Rates by the values of a column."""
    frame = pd.DataFrame(case["rows"], columns=["value", "label", "prediction"])
    selected = frame.assign(hit=frame.prediction == case["positive"]).groupby("value").hit.mean()
    found = frame[frame.label == case["positive"]].assign(hit=lambda f: f.prediction == case["positive"])
    accuracy = frame.assign(hit=frame.label == frame.prediction).groupby("value").hit.mean()
    return {
        "selection": selected.to_dict(),
        "truePositive": found.groupby("value").hit.mean().to_dict(),
        "accuracy": accuracy.to_dict(),
    }


KINDS = {"classes": classes, "numbers": numbers, "groups": groups}
json.dump([KINDS[case["kind"]](case) for case in json.load(sys.stdin)], sys.stdout)

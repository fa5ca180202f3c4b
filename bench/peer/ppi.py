"""Computes ppi-python's intervals for simulated labels: `ppi.py COUNTS CELLS`.

COUNTS has five little-endian 32-bit numbers per simulation: labels by verdict and by what people said (passed and good, passed and
bad, failed and good, failed and bad), and the captures that the judge passes. CELLS is JSON: for each cell its true rate, labels,
judged captures and number of simulations. Prints, for each cell, how many 95% intervals contain the rate, and their mean width.
"""

import json
import sys
from importlib.metadata import version

import numpy as np
from ppi_py import ppi_mean_ci

# Simulations are columns of one call. ppi-python multiplies matrices of columns by columns.
COLUMNS = 64


def intervals(counts, labels, judged):
    passed_good, passed_bad, failed_good, _, passed = counts.T
    row = np.arange(labels)[:, None]
    seen = passed_good + passed_bad
    verdict = (row < seen).astype(float)
    person = ((row < passed_good) | ((row >= seen) & (row < seen + failed_good))).astype(float)
    others = (np.arange(judged - labels)[:, None] < passed - seen).astype(float)
    return ppi_mean_ci(person, verdict, others, alpha=0.05, lam_optim_mode="element")


def main():
    counts = np.fromfile(sys.argv[1], dtype="<i4").reshape(-1, 5)
    with open(sys.argv[2]) as file:
        cells = json.load(file)
    found = []
    at = 0
    np.seterr(all="ignore")
    for cell in cells:
        own = counts[at : at + cell["simulations"]]
        at += len(own)
        covered = 0
        width = 0.0
        for start in range(0, len(own), COLUMNS):
            low, high = intervals(own[start : start + COLUMNS], cell["labels"], cell["judged"])
            # Without a verdict of one kind, ppi-python has no interval.
            covered += int(np.sum((low <= cell["rate"]) & (cell["rate"] <= high)))
            width += float(np.nansum(high - low))
        found.append({"simulations": len(own), "covered": covered, "width": width / len(own)})
    print(json.dumps({"version": version("ppi-python"), "cells": found}))


main()

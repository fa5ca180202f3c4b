"""Reads statements of Athena, and writes them as DuckDB's. An unknown function, or what DuckDB lacks, is an error."""

import json
import sys

import sqlglot
from sqlglot import exp


def translated(text: str) -> str:
    tree = sqlglot.parse_one(text, read="athena")
    unknown = [node.name for node in tree.find_all(exp.Anonymous)]
    if unknown:
        raise ValueError(f"unknown functions: {unknown}")
    return tree.sql("duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)


json.dump([translated(text) for text in json.load(sys.stdin)], sys.stdout)

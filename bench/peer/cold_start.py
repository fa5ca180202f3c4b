"""Logs the first record like a single function that logs and judges, as in the AWS sample: its imports, then a span."""

import runpy
import sys

import boto3  # noqa: F401
import litellm  # noqa: F401
import mlflow.genai  # noqa: F401
from mlflow.genai import evaluate, make_judge, scorers  # noqa: F401

sys.argv[0] = __file__.replace("cold_start.py", "ingest.py")
runpy.run_path(sys.argv[0], run_name="__main__")

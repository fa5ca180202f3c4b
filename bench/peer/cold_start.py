"""Logs the first record with the imports of the AWS sample, where one function both logs and judges."""

import runpy
import sys

import boto3  # noqa: F401
import litellm  # noqa: F401
import mlflow.genai  # noqa: F401
from mlflow.genai import evaluate, make_judge, scorers  # noqa: F401

sys.argv[0] = __file__.replace("cold_start.py", "ingest.py")
runpy.run_path(sys.argv[0], run_name="__main__")

"""The first record of one function that both logs and judges, as the AWS sample's does: its imports, then a span."""

import runpy
import sys

import boto3  # noqa: F401
import litellm  # noqa: F401
import mlflow.genai  # noqa: F401
from mlflow.genai import evaluate, make_judge, scorers  # noqa: F401

sys.argv[0] = __file__.replace("cold_start.py", "ingest.py")
runpy.run_path(sys.argv[0], run_name="__main__")

"""Counts an experiment's traces, its traces with all tags, and its assessments, with MLflow's own client."""

import json
import sys

import mlflow

TAGS = {
    "sagemaker_endpoint_name",
    "sagemaker_variant_name",
    "event_id",
    "inference_id",
    "inference_time",
    "status_code",
    "s3_bucket_name",
    "s3_file_key",
    "capture_format",
}

url, name = sys.argv[1:]
client = mlflow.MlflowClient(url)
experiment = client.get_experiment_by_name(name)
traces = whole = assessments = errors = 0
token = None
while True:
    page = client.search_traces(
        locations=[experiment.experiment_id], max_results=500, page_token=token, include_spans=False
    )
    for trace in page:
        traces += 1
        whole += TAGS <= set(trace.info.tags)
        for assessment in trace.info.assessments:
            assessments += 1
            errors += getattr(assessment, "error", None) is not None
    token = page.token
    if not token:
        break
print(json.dumps({"traces": traces, "whole": whole, "assessments": assessments, "errors": errors}))

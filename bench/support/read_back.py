"""Counts an experiment's traces and assessments, with MLflow's own client."""

import json
import sys

import mlflow

url, name = sys.argv[1:]
client = mlflow.MlflowClient(url)
experiment = client.get_experiment_by_name(name)
traces = assessments = errors = 0
token = None
while True:
    page = client.search_traces(
        locations=[experiment.experiment_id], max_results=500, page_token=token, include_spans=False
    )
    for trace in page:
        traces += 1
        for assessment in trace.info.assessments:
            assessments += 1
            errors += getattr(assessment, "error", None) is not None
    token = page.token
    if not token:
        break
print(json.dumps({"traces": traces, "assessments": assessments, "errors": errors}))

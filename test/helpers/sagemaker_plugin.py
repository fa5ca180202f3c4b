"""Uses SageMaker-managed MLflow with AWS's own Python plugin (`sagemaker-mlflow`), unmodified, as a user would.

Logs a run and a trace, reads this trace and another one, and prints the results as JSON.
"""

import gc
import json
import sys
import warnings

# Nothing of a client that is imported is garbage, and looking for it takes a quarter of the time.
gc.disable()

import mlflow

gc.freeze()
gc.enable()

warnings.filterwarnings("ignore")


def main():
    arn, experiment, other_trace_id = sys.argv[1:]
    mlflow.set_tracking_uri(arn)
    experiment_id = mlflow.set_experiment(experiment).experiment_id
    with mlflow.start_run() as run:
        mlflow.log_metric("accuracy", 0.9)
        mlflow.log_text("hello", "notes/greeting file.txt")
    with mlflow.start_span(name="asked by the plugin") as span:
        span.set_inputs({"question": "Is it real?"})
        span.set_outputs({"answer": "As near as can be."})
    mlflow.flush_trace_async_logging()
    trace = mlflow.get_trace(span.trace_id)
    print(
        json.dumps({
            "experimentId": experiment_id,
            "metric": mlflow.get_run(run.info.run_id).data.metrics["accuracy"],
            "text": mlflow.artifacts.load_text(
                f"{run.info.artifact_uri}/notes/greeting file.txt"
            ),
            "traceId": span.trace_id,
            "inputs": trace.data.spans[0].inputs,
            "outputs": trace.data.spans[0].outputs,
            "otherInputs": mlflow.get_trace(other_trace_id).data.spans[0].inputs,
        })
    )


main()

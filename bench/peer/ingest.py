"""Logs a capture file as MLflow's documentation shows it: a span per record, with tags on the trace."""

import json
import sys

import mlflow
from report import Report

experiment, path, bucket, key = sys.argv[1:]
report = Report()
mlflow.set_experiment(experiment)
records = 0
with open(path) as lines:
    for line in lines:
        record = json.loads(line)
        data = record["captureData"]
        request = json.loads(data["endpointInput"]["data"])
        response = json.loads(data["endpointOutput"]["data"])
        event = record["eventMetadata"]
        with mlflow.start_span(name="bench-endpoint", span_type="CHAT_MODEL") as span:
            span.set_inputs(request)
            span.set_outputs(response)
            usage = response["usage"]
            span.set_attribute(
                "mlflow.chat.tokenUsage",
                {
                    "input_tokens": usage["prompt_tokens"],
                    "output_tokens": usage["completion_tokens"],
                    "total_tokens": usage["total_tokens"],
                },
            )
            mlflow.update_current_trace(
                tags={
                    "sagemaker_endpoint_name": "bench-endpoint",
                    "sagemaker_variant_name": "AllTraffic",
                    "event_id": event["eventId"],
                    "inference_id": event["eventId"],
                    "inference_time": event["inferenceTime"],
                    "status_code": "200",
                    "s3_bucket_name": bucket,
                    "s3_file_key": key,
                    "capture_format": "chat",
                },
                client_request_id=event["eventId"],
            )
        records += 1
mlflow.flush_trace_async_logging()
report.finish({"traced": records})

"""Reads the result files of a replay with AIPerf's own models, and prints their contents as JSON."""

import csv
import json
import pathlib
import sys

from aiperf.common.models.dataset_models import InputsFile
from aiperf.common.models.export_models import JsonExportData
from aiperf.common.models.record_models import MetricRecordInfo
from aiperf.plot.core.data_loader import DataLoader

directory = pathlib.Path(sys.argv[1])


def lines(name, model):
    path = directory / name
    return [model.model_validate_json(line) for line in path.read_text().splitlines()] if path.exists() else []


records = lines("profile_export.jsonl", MetricRecordInfo)
summary = JsonExportData.model_validate_json((directory / "profile_export_aiperf.json").read_text())
inputs = InputsFile.model_validate_json((directory / "inputs.json").read_text())
run = DataLoader().load_run(directory)
payloads = {session.session_id: session.payloads for session in inputs.data}
# AIPerf writes this file but never reads it, so it is compared with the other files.
table = {row[0]: row[1] for row in csv.reader((directory / "profile_export_aiperf.csv").open()) if row}

print(
    json.dumps(
        {
            "records": len(records),
            "failed": sum(record.error is not None for record in records),
            "cancelled": sum(record.metadata.was_cancelled for record in records),
            "withLatency": sum("request_latency" in record.metrics for record in records),
            "withInputs": sum(
                len(payloads[record.metadata.conversation_id]) > record.metadata.turn_index for record in records
            ),
            "requestCount": summary.request_count.avg,
            "latencyCount": summary.request_latency.count,
            "csvRequestCount": float(table["Request Count"]),
            "csvLatencyError": abs(float(table["Request Latency (ms)"]) - summary.request_latency.avg) > 0.01,
            "goodRequests": summary.good_request_count.avg if summary.good_request_count else None,
            "errors": sum(error.count for error in summary.error_summary),
            "wasCancelled": summary.was_cancelled,
            "plotRequests": len(run.requests),
        }
    )
)

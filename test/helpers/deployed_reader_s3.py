"""Compares the capture bucket with MLflow, for the tests of the deployed path.

Reads S3 with boto3 and MLflow with its own Python client, and decodes captures itself. It shares no code with the
product, so a fault must be in both to go unnoticed. It writes one JSON line to standard output for each JSON line on
standard input: {"bucket", "experiment", "keys"?} -> {"lines", "records", "traced", "missing",
"extra", "wrong", "states", "assessments"}.
"""

import base64
import codecs
import collections
import csv
import datetime
import gc
import hashlib
import json
import sys

# Nothing of a client that is imported is garbage, and looking for it takes a quarter of the time.
gc.disable()

import boto3
import mlflow

gc.freeze()
gc.enable()


BINARY_TYPES = ("application/x-image", "image/", "audio/", "application/octet-stream")


def lines_of(s3, bucket, key):
    body = s3.get_object(Bucket=bucket, Key=key)["Body"].read().removeprefix(codecs.BOM_UTF8)
    for line in body.split(b"\n"):
        line = line.removesuffix(b"\r")
        if line.strip():
            yield line


def record_of(line):
    """Returns the capture record in a line, or None."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("captureData"), dict):
        return None
    return record


def payload_of(side):
    """Returns the content of one side: (text, parsed JSON or None). Binary data has no text, because it stays in S3."""
    if not side or not isinstance(side.get("data"), str):
        return None, None
    text = side["data"]
    if side["encoding"] == "BASE64":
        try:
            content = base64.b64decode(text, validate=True)
        except ValueError:
            # Not the format that it claims to be: the trace must contain it as captured.
            return text, None
        if str(side.get("observedContentType")).startswith(BINARY_TYPES):
            return None, None
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            return None, None
    try:
        return text, json.loads(text)
    except ValueError:
        return text, None


def leaves(value):
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif value is not None:
        yield value


def pieces_of(side):
    """Returns every text and number of one side. The trace must contain each of them."""
    text, parsed = payload_of(side)
    if text is None:
        return []
    if parsed is not None:
        return list(leaves(parsed))
    if side["encoding"] == "CSV":
        return [number_of(cell) for row in csv.reader(text.splitlines()) for cell in row]
    return [text]


def number_of(cell):
    """Returns a numeric cell as a number (`194.0` as 194), and any other cell as text."""
    try:
        return int(float(cell)) if float(cell).is_integer() else float(cell)
    except (ValueError, OverflowError):
        return cell


def expected_trace_id(experiment_id, line):
    return "tr-" + hashlib.sha256(experiment_id.encode() + b"\n" + line).hexdigest()[:32]


def time_of(metadata):
    """Returns epoch milliseconds, or None if the capture has no time."""
    try:
        time = datetime.datetime.fromisoformat(str(metadata.get("inferenceTime")).replace("Z", "+00:00"))
    except ValueError:
        return None
    return int(time.timestamp() * 1000)


def is_error_reply(record):
    output = record["captureData"].get("endpointOutput")
    if not output:
        return False
    _, parsed = payload_of(output)
    # An error of SageMaker, or of a model server in OpenAI's format.
    return output.get("observedContentType") is None or (isinstance(parsed, dict) and parsed.get("object") == "error")


def check_trace(trace, record, bucket, keys):
    """Returns the problems of a trace, as sentences."""
    wrong = []

    def expect(what, got, wanted):
        if got != wanted:
            wrong.append(f"{what}: got {got!r}, expected {wanted!r}")

    metadata = record.get("eventMetadata", {})
    info, tags = trace.info, trace.info.tags
    places = {key.split("/")[0]: key.split("/")[1] for key in keys}
    endpoint = tags.get("sagemaker_endpoint_name")
    expect("tag sagemaker_endpoint_name", endpoint in places, True)
    expect("tag sagemaker_variant_name", tags.get("sagemaker_variant_name"), places.get(endpoint))
    expect("tag s3_bucket_name", tags.get("s3_bucket_name"), bucket)
    if tags.get("s3_file_key") not in keys:
        wrong.append(f"tag s3_file_key: got {tags.get('s3_file_key')!r}, expected one of {sorted(keys)}")
    expect("tag event_id", tags.get("event_id"), metadata.get("eventId"))
    expect("tag inference_id", tags.get("inference_id"), metadata.get("inferenceId") or metadata.get("eventId"))
    at = time_of(metadata)
    if at is not None:
        expect("request time", info.request_time, at)
    expect("state", str(info.state.value), "ERROR" if is_error_reply(record) else "OK")

    # Compared as JSON text: a captured number may be text in the trace, and a text may be part of a longer one.
    shown = json.dumps([[span.inputs, span.outputs, dict(span.attributes)] for span in trace.data.spans], ensure_ascii=False)
    for name in ("endpointInput", "endpointOutput"):
        if name == "endpointOutput" and is_error_reply(record):
            continue
        for piece in pieces_of(record["captureData"].get(name)):
            as_text = json.dumps(piece, ensure_ascii=False)
            inside = as_text[1:-1] if isinstance(piece, str) else as_text
            if inside not in shown and json.dumps(inside)[1:-1] not in shown:
                wrong.append(f"{name}: {as_text[:120]} is not in the trace")
    return wrong


def verdict_of(assessment):
    feedback = assessment.feedback
    return {
        "name": assessment.name,
        "value": feedback.value if feedback else None,
        "error": feedback.error.error_code if feedback and feedback.error else None,
        "source": f"{assessment.source.source_type} {assessment.source.source_id}",
        "rationale": assessment.rationale,
        "valid": assessment.valid is not False,
        "metadata": dict(assessment.metadata or {}),
    }


def all_keys(s3, bucket):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def compare(s3, request):
    bucket, experiment_name = request["bucket"], request["experiment"]
    keys = request.get("keys") or [key for key in all_keys(s3, bucket) if key.endswith(".jsonl")]
    lines = [(key, line) for key in keys for line in lines_of(s3, bucket, key)]
    experiment = mlflow.get_experiment_by_name(experiment_name)
    if experiment is None:
        return {"error": f"MLflow has no experiment {experiment_name}", "lines": len(lines)}
    traces = mlflow.search_traces(
        locations=[experiment.experiment_id], max_results=50_000, return_type="list", include_spans=True
    )
    found = {trace.info.trace_id: trace for trace in traces}
    records = {}
    for _, line in lines:
        record = record_of(line)
        if record is not None:
            records[expected_trace_id(experiment.experiment_id, line)] = record
    missing = sorted(records.keys() - found.keys())
    wrong = {}
    for trace_id in sorted(records.keys() & found.keys()):
        problems = check_trace(found[trace_id], records[trace_id], bucket, set(keys))
        if problems:
            wrong[trace_id] = problems
    own = [found[trace_id] for trace_id in records if trace_id in found]
    usage = [trace.info.token_usage or {} for trace in own]
    return {
        "lines": len(lines),
        "notRecords": sum(record_of(line) is None for _, line in lines),
        "records": len(records),
        "traced": len(own),
        "missing": missing,
        "extra": sorted(found.keys() - records.keys()),
        "wrong": wrong,
        "states": collections.Counter(str(trace.info.state.value) for trace in own),
        "totalTokens": sum(entry.get("total_tokens", 0) for entry in usage),
        "assessments": {
            trace.info.trace_id: [verdict_of(assessment) for assessment in trace.info.assessments] for trace in own
        },
    }


def main():
    s3 = boto3.client("s3")
    for request in sys.stdin:
        try:
            answer = compare(s3, json.loads(request))
        except Exception as error:  # The test reports it, and this process continues.
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

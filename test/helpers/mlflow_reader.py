"""Reads and changes MLflow with its Python client. Each line of standard input is a JSON command, each line of output an answer.

It shares no code with the product, so it sees what users of MLflow see.
"""

import gc
import json
import sys
import warnings

# Nothing of a client that is imported is garbage, and looking for it takes a quarter of the time.
gc.disable()

import mlflow
from mlflow.entities import AssessmentSource, Expectation, Feedback

gc.freeze()
gc.enable()

warnings.filterwarnings("ignore")


def trace_to_json(trace):
    info = trace.info
    return {
        "traceId": info.trace_id,
        "state": str(getattr(info.state, "value", info.state)),
        "requestTimeMs": info.request_time,
        "executionDurationMs": info.execution_duration,
        "clientRequestId": info.client_request_id,
        "requestPreview": info.request_preview,
        "responsePreview": info.response_preview,
        "tags": dict(info.tags),
        "metadata": dict(info.trace_metadata),
        "tokenUsage": info.token_usage,
        "assessments": [assessment_to_json(a) for a in info.assessments],
        "spans": [
            {
                "spanId": span.span_id,
                "parentId": span.parent_id,
                "name": span.name,
                "type": span.span_type,
                "status": str(span.status.status_code.value),
                "statusMessage": span.status.description,
                "inputs": span.inputs,
                "outputs": span.outputs,
                "attributes": span.attributes,
                "startNs": str(span.start_time_ns),
                "endNs": str(span.end_time_ns),
                "events": [{"name": event.name, "ns": str(event.timestamp)} for event in span.events],
                "links": [[link.trace_id, link.span_id] for link in getattr(span, "links", [])],
            }
            for span in (trace.data.spans if trace.data else [])
        ],
    }


def assessment_to_json(assessment):
    feedback = getattr(assessment, "feedback", None)
    expectation = getattr(assessment, "expectation", None)
    error = feedback.error if feedback else None
    return {
        "assessmentId": assessment.assessment_id,
        "name": assessment.name,
        "sourceType": assessment.source.source_type,
        "sourceId": assessment.source.source_id,
        "value": feedback.value if feedback else expectation.value if expectation else None,
        "isExpectation": expectation is not None,
        "spanId": assessment.span_id,
        "error": {"code": error.error_code, "message": error.error_message} if error else None,
        "rationale": assessment.rationale,
        "metadata": assessment.metadata or {},
        "overrides": assessment.overrides,
        "valid": assessment.valid,
        "createTimeMs": assessment.create_time_ms,
    }


def search(command):
    arguments = {
        "filter_string": command.get("filter"),
        "max_results": 1000,
        "return_type": "list",
    }
    ids = [command["experimentId"]]
    try:
        found = mlflow.search_traces(locations=ids, **arguments)
    except TypeError:
        found = mlflow.search_traces(experiment_ids=ids, **arguments)
    return [trace_to_json(trace) for trace in found]


def find(command):
    """Returns only ids, without fetching spans."""
    ids = [command["experimentId"]]
    arguments = {"filter_string": command["filter"], "max_results": 500, "include_spans": False}
    try:
        found = client().search_traces(locations=ids, **arguments)
    except TypeError:
        found = client().search_traces(experiment_ids=ids, **arguments)
    return sorted(trace.info.trace_id for trace in found)


def feedback(command):
    source = AssessmentSource(source_type="HUMAN", source_id="person@example.com")
    return mlflow.log_feedback(
        trace_id=command["traceId"], name=command["name"], value=command["value"], source=source
    ).assessment_id


def override(command):
    source = AssessmentSource(source_type="HUMAN", source_id="person@example.com")
    return mlflow.override_feedback(
        trace_id=command["traceId"],
        assessment_id=command["assessmentId"],
        value=command["value"],
        source=source,
    ).assessment_id


def edit(command):
    """Changes the value of an assessment, as MLflow's page does."""
    source = AssessmentSource(source_type="HUMAN", source_id="person@example.com")
    assessment = Feedback(name=command["name"], value=command["value"], source=source)
    mlflow.update_assessment(
        trace_id=command["traceId"], assessment_id=command["assessmentId"], assessment=assessment
    )


def edit_expectation(command):
    mlflow.update_assessment(
        trace_id=command["traceId"],
        assessment_id=command["assessmentId"],
        assessment=Expectation(name=command["name"], value=command["value"]),
    )


def expectations(command):
    """Returns the expectations that MLflow finds for a name, of a span or of all."""
    found = mlflow.get_trace(command["traceId"]).search_assessments(
        command["name"], span_id=command.get("spanId"), type="expectation"
    )
    return [assessment_to_json(assessment) for assessment in found]


def log_trace(command):
    """Creates a trace with MLflow, as in its documentation."""
    mlflow.set_experiment(experiment_id=command["experimentId"])
    with mlflow.start_span(name=command["name"]) as span:
        span.set_inputs(command["inputs"])
        span.set_outputs(command["outputs"])
    mlflow.flush_trace_async_logging()
    return span.trace_id


def client():
    return mlflow.MlflowClient()


COMMANDS = {
    "search": search,
    "find": find,
    "get": lambda c: trace_to_json(mlflow.get_trace(c["traceId"])),
    "feedback": feedback,
    "override": override,
    "edit": edit,
    "edit_expectation": edit_expectation,
    "expect": lambda c: mlflow.log_expectation(
        trace_id=c["traceId"], name=c["name"], value=c["value"]
    ).assessment_id,
    "expectations": expectations,
    "delete_assessment": lambda c: mlflow.delete_assessment(
        trace_id=c["traceId"], assessment_id=c["assessmentId"]
    ),
    "set_tag": lambda c: client().set_trace_tag(c["traceId"], c["key"], c["value"]),
    "log_trace": log_trace,
    "delete_traces": lambda c: client().delete_traces(c["experimentId"], trace_ids=c["traceIds"]),
    "create_experiment": lambda c: mlflow.create_experiment(c["name"]),
    "experiment": lambda c: mlflow.get_experiment_by_name(c["name"]).experiment_id,
    "delete_experiment": lambda c: client().delete_experiment(c["experimentId"]),
    "restore_experiment": lambda c: client().restore_experiment(c["experimentId"]),
    "version": lambda c: mlflow.__version__,
}


def main():
    answers = sys.stdout
    # Output of MLflow must not mix with the answers.
    sys.stdout = sys.stderr
    mlflow.set_tracking_uri(sys.argv[1])
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"result": COMMANDS[command["do"]](command)}
        except Exception as error:  # noqa: BLE001 the caller decides
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


main()

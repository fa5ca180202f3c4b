"""Writes each request to emulated AWS, and each step that Step Functions takes itself, to a file for `checks.ts`.

The emulator's process loads this file if the variable REQUEST_RECORDER names it. REQUEST_LOG is the folder of the log.
Each line of the log is a JSON object: a request over HTTP, or with `resource` a service integration of a state machine.
"""

import json
import os
import re
import threading
import xml.etree.ElementTree as ElementTree

# Contents of objects and of function inputs are not AWS's to check.
TEXTS = re.compile(r"json|x-www-form-urlencoded|xml")


class Log:
    def __init__(self, folder):
        self._file = os.open(os.path.join(folder, f"emulator-{os.getpid()}.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._lock = threading.Lock()

    def write(self, entry):
        line = json.dumps(entry, separators=(",", ":"), default=str).encode() + b"\n"
        with self._lock:
            os.write(self._file, line)


def xml_of(text):
    """The elements as [tag, text, children], without namespaces."""

    def convert(element):
        return [element.tag.rpartition("}")[2], element.text or "", [convert(child) for child in element]]

    try:
        return convert(ElementTree.fromstring(text))
    except ElementTree.ParseError:
        # The content of an object that begins like XML.
        return None


def request_entry(scope, is_s3, body):
    """@param body its first part alone if it is the content of an object"""
    headers = {name.decode("latin-1").lower(): value.decode("utf-8", "replace") for name, value in scope["headers"]}
    query = scope.get("query_string", b"").decode("latin-1")
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    entry = {"method": scope["method"], "path": path, "query": query, "headers": headers}
    if is_s3 and body.startswith(b"<"):
        entry["xml"] = xml_of(body)
    elif not is_s3 and TEXTS.search(headers.get("content-type", "")):
        entry["text"] = body.decode("utf-8", "replace")
    return entry


def record_requests(app, log):
    async def recorded(scope, receive, send):
        if scope["type"] != "http" or scope["path"].startswith("/_"):
            await app(scope, receive, send)
            return
        names = {name.lower(): value for name, value in scope["headers"]}
        is_s3 = b"/s3/aws4_request" in names.get(b"authorization", b"")
        parts = []
        length = 0

        async def receive_and_record():
            nonlocal length
            message = await receive()
            if message["type"] == "http.request":
                part = message.get("body", b"")
                length += len(part)
                # The content of an object may be large.
                if part and (not parts or not is_s3 or parts[0].startswith(b"<")):
                    parts.append(part)
                if not message.get("more_body", False):
                    log.write({**request_entry(scope, is_s3, b"".join(parts)), "length": length})
            return message

        if names.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in names:
            log.write({**request_entry(scope, is_s3, b""), "length": 0})
            await app(scope, receive, send)
        else:
            await app(scope, receive_and_record, send)

    return recorded


def size(value):
    """The length of a state's input or output as Step Functions counts it."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str).encode())


def record_states(stepfunctions, log):
    invoke = stepfunctions._invoke_resource
    read = stepfunctions._read_map_items
    run_map = stepfunctions._run_distributed_map
    run_child = stepfunctions._run_sub_machine
    resolve = stepfunctions._resolve_params_obj

    def invoke_and_record(resource, effective):
        entry = {"resource": resource, "inputLength": size(effective)}
        # The input of a function that is named as the resource is the function's own.
        if resource.startswith("arn:aws:states:::"):
            entry["parameters"] = effective
        log.write(entry)
        result = invoke(resource, effective)
        log.write({"resource": resource, "outputLength": size(result)})
        return result

    def read_and_record(reader, effective, ctx):
        parameters = resolve(reader.get("Parameters") or reader.get("Arguments") or {}, effective, ctx)
        log.write({"resource": reader.get("Resource", ""), "parameters": parameters})
        return read(reader, effective, ctx)

    def run_map_and_record(state, raw_input, effective, iterator, execution, ctx):
        writer = state.get("ResultWriter")
        if writer:
            parameters = resolve(writer.get("Parameters") or writer.get("Arguments") or {}, effective, ctx)
            log.write({"resource": writer.get("Resource", ""), "parameters": parameters, "writes": "results"})
        return run_map(state, raw_input, effective, iterator, execution, ctx)

    def run_child_and_record(states, start, child_input, execution, ctx):
        if "mapRunArn" in execution:
            log.write({"resource": "arn:aws:states:::states:startExecution", "inputLength": size(child_input)})
        return run_child(states, start, child_input, execution, ctx)

    stepfunctions._invoke_resource = invoke_and_record
    stepfunctions._read_map_items = read_and_record
    stepfunctions._run_distributed_map = run_map_and_record
    stepfunctions._run_sub_machine = run_child_and_record


def install():
    """Wraps the emulator before it starts. A part that a newer emulator lacks is an AttributeError, which stops it."""
    from ministack import app
    from ministack.services import stepfunctions

    log = Log(os.environ["REQUEST_LOG"])
    record_states(stepfunctions, log)
    app.app = record_requests(app.app, log)

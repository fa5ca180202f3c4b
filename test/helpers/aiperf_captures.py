"""Reads capture files with AIPerf's loader: aiperf_captures.py FILE. Prints the parsed requests."""

import json
import sys

import orjson
from aiperf.dataset.loader.sagemaker_data_capture import SageMakerDataCaptureLoader as Loader

loader = Loader.__new__(Loader)
with open(sys.argv[1], "rb") as file:
    traces = [loader._parse_trace(orjson.loads(line)) for line in file if line.strip()]
can_load = Loader.can_load(filename=sys.argv[1])
print(json.dumps({"canLoad": can_load, "messages": [trace.messages for trace in traces]}))

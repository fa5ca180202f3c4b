"""An application that mypy checks with --strict, and whose own mistakes it must find."""

import boto3  # type: ignore[import-untyped]

from sagemaker_inference_monitor_capture import Captures, Stats, capture_all, capture_invocations

everything: Captures = capture_all(bucket="captures", prefix="p", calls="all", sampling=0.5)
captures = capture_invocations(boto3.client("sagemaker-runtime"), bucket="captures", batch_seconds=0.5)
stats: Stats = captures.flush(3)
lost: int = stats["dropped"] + everything.stats()["waiting"]
error: str = stats["last_error"]  # an error
capture_all(bucket=1)  # an error
captures.flash()  # an error

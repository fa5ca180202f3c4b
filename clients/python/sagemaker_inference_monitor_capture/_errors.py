"""Tells the kinds of errors of a call apart."""

from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError


def kind_of_code(code, status):
    """The kind of an error that SageMaker replied with."""
    if code == "ModelError":
        return "model"
    if status in (429, 503) or any(word in code for word in ("Throttl", "TooManyRequests", "ModelNotReady")):
        return "throttled"
    return "service" if status is not None and status >= 500 else "refused"


def kind_of_exception(error):
    """The kind of an error before there was a reply."""
    return "timeout" if isinstance(error, (ReadTimeoutError, ConnectTimeoutError)) else "no-connection"

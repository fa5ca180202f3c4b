"""Clients for the bucket, with what the application's own clients have."""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
from collections.abc import Coroutine
from typing import Any, Callable

import botocore.session
from botocore.client import BaseClient
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError


def is_client(client: Any, service: str) -> bool:
    return isinstance(client, BaseClient) and client.meta.service_model.service_name == service


def is_async(client: object) -> bool:
    """Whether it is a client of aiobotocore, which is only imported if the application has imported it."""
    module = sys.modules.get("aiobotocore.client")
    return module is not None and isinstance(client, module.AioBaseClient)


class LastCredentials(Credentials):  # type: ignore[misc]
    """The credentials of the client that made the last call."""

    def __init__(self) -> None:
        super().__init__("-", "-")
        self.given: Any = None

    def get_frozen_credentials(self) -> Any:
        if self.given is None:
            raise NoCredentialsError
        return self.given.get_frozen_credentials()

    def take(self, credentials: Any) -> Coroutine[Any, Any, None] | None:
        """Takes those of a call. Returns what must be awaited in its loop: no other thread can ask aiobotocore's for the keys."""
        if inspect.iscoroutinefunction(type(credentials).get_frozen_credentials):
            return self._ask(credentials)
        self.given = credentials
        return None

    async def _ask(self, credentials: Any) -> None:
        with contextlib.suppress(Exception):
            # The call has just used them. Without them, those of an earlier call stay.
            frozen = await credentials.get_frozen_credentials()
            self.given = types.SimpleNamespace(get_frozen_credentials=lambda: frozen)


def past_tracers(s3: Any) -> Any:
    """Returns a copy of a client whose calls no tool sees that wraps botocore's methods.

    X-Ray would log or raise errors in a thread without a segment.
    """
    copy, endpoint = (object.__new__(type(each)) for each in (s3, s3._endpoint))
    vars(endpoint).update(vars(s3._endpoint))
    vars(copy).update(vars(s3), _endpoint=endpoint)
    for owner, name in ((copy, "_make_api_call"), (endpoint, "prepare_request")):
        method = inspect.getattr_static(owner, name)
        while not _is_botocores(method) and hasattr(method, "__wrapped__"):
            method = method.__wrapped__
        setattr(owner, name, types.MethodType(method, owner))
    return copy


def _is_botocores(method: Any) -> bool:
    # An object that wraps a function may say that it is one, and of the function's module.
    return type(method) is types.FunctionType and method.__globals__["__name__"].startswith("botocore.")


def untraced() -> contextlib.AbstractContextManager[None]:
    """Returns a context without OpenTelemetry's instrumentation, also of connections."""
    module = sys.modules.get("opentelemetry.instrumentation.utils")
    return getattr(module, "suppress_instrumentation", contextlib.nullcontext)()


def s3_like(client: Any, s3: Any, credentials: LastCredentials) -> Any:
    """Makes a client for S3, with the settings of another if there is one, else with the region of `client`."""
    session = botocore.session.get_session()
    # Each loader would keep S3's model, of 10 MB, for itself.
    session.register_component("data_loader", client._loader)
    own = (s3 or client)._request_signer._credentials
    # A session cannot be given credentials that renew themselves in another way. Without some, it finds its own.
    session._credentials = own if s3 or own is None else credentials
    config = s3.meta.config if s3 else Config(connect_timeout=5, read_timeout=15, retries={"total_max_attempts": 1})
    settings = {"region_name": (s3 or client).meta.region_name, "endpoint_url": s3 and s3.meta.endpoint_url, "config": config}
    return past_tracers(session.create_client("s3", **settings))

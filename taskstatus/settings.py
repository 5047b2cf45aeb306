"""Typed settings of every process, from ``TASKSTATUS_*`` variables; validated at start, printable without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX = "TASKSTATUS_"
_LISTEN = re.compile(r"[^\s:]*:\d{1,5}\Z|\[[0-9a-fA-F:]+\]:\d{1,5}\Z")
MAX_PORT = 65_535
_FILE_SECRETS = ("DATABASE_URL", "REDIS_URL", "CENTRIFUGO_API_KEY")


class SettingsError(Exception):
    """The configuration cannot be used; the message names each variable and what is wrong with it."""


class Settings(BaseSettings):
    """What one process needs; times in seconds."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    database_url: SecretStr
    redis_url: SecretStr | None = None
    grpc_listen: str = "127.0.0.1:50051"
    grpc_reflection: bool = True
    grpc_tls_cert_file: Path | None = None
    grpc_tls_key_file: Path | None = None
    grpc_tls_client_ca_file: Path | None = None
    rest_listen: str = "127.0.0.1:8080"
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    metrics_listen: str = "127.0.0.1:9464"
    identity_file: Path | None = None
    execution_keys_file: Path | None = None
    execution_token_seconds: int = Field(default=900, ge=60, le=86_400)
    realtime_key_file: Path | None = None
    realtime_key_id: str = "realtime-1"
    centrifugo_grpc_target: str = "127.0.0.1:10000"
    centrifugo_api_url: str = "http://127.0.0.1:9000/api"
    centrifugo_api_key: SecretStr | None = None
    centrifugo_public_url: str = "ws://127.0.0.1:8000/connection/websocket"
    relay_publisher: Literal["grpc", "http"] = "grpc"
    version_epoch: str = Field(default="1", min_length=1, max_length=64)
    log_format: Literal["json", "text"] = "json"
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    lanes: int = Field(default=3, ge=1, le=64)
    lane_batch_commands: int = Field(default=100, ge=1, le=1_000)
    lane_queue_commands: int = Field(default=2_000, ge=1, le=100_000)
    lane_cached_tasks: int = Field(default=10_000, ge=1, le=1_000_000)
    events_per_second: float = Field(default=20_000.0, gt=0)
    burst_events: float = Field(default=40_000.0, ge=1)
    heartbeats_per_second: float = Field(default=200_000.0, gt=0)
    burst_heartbeats: float = Field(default=400_000.0, ge=1)
    heartbeat_persist_seconds: int = Field(default=15, ge=1, le=15)
    heartbeat_longest_interval_seconds: int = Field(default=120, ge=1, le=28_795)
    health_grace_seconds: float = Field(default=60.0, ge=0)
    health_batch: int = Field(default=100, ge=1, le=1_000)
    health_second_check: bool = True
    worker_lost_after_seconds: int = Field(default=300, ge=1)
    stale_stuck_after_seconds: int = Field(default=120, ge=1)
    oldest_accepted_event_seconds: int = Field(default=7 * 86_400, ge=60)
    dynamic_steps: int = Field(default=100, ge=1, le=10_000)
    dynamic_depth: int = Field(default=4, ge=1, le=16)
    dynamic_parallel: int = Field(default=10, ge=1, le=1_000)
    dynamic_per_minute: int = Field(default=120, ge=1, le=600)
    stream_window_items: int = Field(default=2_000, ge=1, le=100_000)
    stream_bound_executions: int = Field(default=10_000, ge=1, le=100_000)
    stream_age_seconds: int = Field(default=1_500, ge=10)
    database_writers: int = Field(default=8, ge=1, le=200)
    database_readers: int = Field(default=4, ge=1, le=200)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what ``load_settings`` passes in: it alone reads the environment."""
        return (init_settings,)

    @field_validator("grpc_listen", "rest_listen", "metrics_listen")
    @classmethod
    def _is_address(cls, value: str) -> str:
        if not _LISTEN.match(value) or int(value.rpartition(":")[2]) > MAX_PORT:
            raise ValueError("must be host:port")
        return value

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _origins(cls, value: object) -> object:
        """Comma-separated in the environment."""
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("identity_file", "execution_keys_file", "realtime_key_file")
    @classmethod
    def _is_readable(cls, value: Path | None) -> Path | None:
        if value is not None and not os.access(value, os.R_OK):
            raise ValueError(f"cannot read {value}")
        return value

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        if (self.grpc_tls_cert_file is None) != (self.grpc_tls_key_file is None):
            raise ValueError("GRPC_TLS_CERT_FILE and GRPC_TLS_KEY_FILE go together")
        return self

    def printable(self) -> dict[str, str]:
        """Every setting as text, secrets masked."""
        return {f"{PREFIX}{name.upper()}": _shown(value) for name, value in self}

    def require(self, *names: str) -> Self:
        """This object, when each named setting is present. Raises SettingsError naming those that are not."""
        missing = [f"{PREFIX}{name.upper()}" for name in names if getattr(self, name) is None]
        if missing:
            raise SettingsError(f"not set: {', '.join(missing)}")
        return self


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return (
            re.sub(r"(//[^:/@]+):[^@/]+@", r"\1:***@", value.get_secret_value())
            if "//" in value.get_secret_value()
            else "***"
        )
    return "" if value is None else str(value)


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process. Raises SettingsError that names every variable that is off.

    A secret ``X`` may be given as ``X_FILE``, a path whose trimmed content is the value.
    """
    values = dict(os.environ if environment is None else environment)
    _read_file_secrets(values)
    fields = {
        name: values[f"{PREFIX}{name.upper()}"] for name in Settings.model_fields if f"{PREFIX}{name.upper()}" in values
    }
    try:
        return Settings.model_validate(fields)
    except ValidationError as error:
        problems = "; ".join(f"{PREFIX}{_path(item['loc'])}: {item['msg']}" for item in error.errors())
        raise SettingsError(problems) from None


def _path(location: tuple[int | str, ...]) -> str:
    return str(location[0]).upper() if location else "*"


def _read_file_secrets(values: dict[str, str]) -> None:
    for name in _FILE_SECRETS:
        variable = f"{PREFIX}{name}"
        path = values.get(f"{variable}_FILE")
        if path is None:
            continue
        if variable in values:
            raise SettingsError(f"{variable} and {variable}_FILE are both set")
        try:
            values[variable] = Path(path).read_text().strip()
        except OSError as error:
            raise SettingsError(f"{variable}_FILE: cannot read {path}: {error.strerror}") from None

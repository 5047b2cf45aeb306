"""The configuration that a Centrifugo of ours gets."""

import json
from pathlib import Path

from scripts.stack import centrifugo, given
from scripts.stack.binaries import Binary
from scripts.stack.centrifugo import Ports
from scripts.stack.versions import Version

WHERE = Ports(public=8001, internal=9001, grpc=10001)
NAMESPACES = {"task_user", "workflow_summary", "task_detail", "task_project", "task_tenant", "task_system"}


def test_configuration_has_the_keys_and_ports_and_keeps_the_base() -> None:
    config = centrifugo.configuration(WHERE, "secret", "PEM", {})
    assert config["http_server"]["port"] == 8001
    assert config["http_server"]["internal_port"] == "9001"
    assert config["http_api"]["key"] == config["grpc_api"]["key"] == "secret"
    assert config["client"]["token"] == {
        "audience": "task-realtime",
        "issuer": "task-status-service",
        "ecdsa_public_key": "PEM",
    }
    assert config["client"]["subscription_token"]["audience"] == "task-realtime-subscription"


def test_every_namespace_has_history_and_none_lets_a_client_in_without_a_token() -> None:
    namespaces = json.loads(centrifugo.BASE.read_text())["channel"]["namespaces"]
    assert {namespace["name"] for namespace in namespaces} == NAMESPACES
    assert all(namespace["history_size"] > 0 and namespace["history_ttl"] for namespace in namespaces)
    assert not [key for namespace in namespaces for key in namespace if key.startswith("allow_")]


def test_overrides_replace_values_and_leave_their_neighbours() -> None:
    config = centrifugo.configuration(WHERE, "k", "PEM", {"client": {"token": {"audience": "other"}}})
    assert config["client"]["token"]["audience"] == "other"
    assert config["client"]["token"]["issuer"] == "task-status-service"


def test_base_configuration_holds_no_secret() -> None:
    text = centrifugo.BASE.read_text()
    assert '"key"' not in text
    assert "PUBLIC KEY" not in text


def test_gateways_own_port_is_an_allowed_origin_once() -> None:
    origins = centrifugo.origins("127.0.0.1:8081")
    assert "http://127.0.0.1:8081" in origins
    assert len(origins) == len(set(origins))


def test_configuration_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    binary = Binary("centrifugo", ["centrifugo"], Version("centrifugo", (6, 9, 1), ""), tmp_path, "here")
    centrifugo.program(binary, tmp_path, WHERE, {"http_api": {"key": "secret"}}, tmp_path / "log")
    assert (tmp_path / "config.json").stat().st_mode & 0o077 == 0


def test_url_is_shown_without_its_password() -> None:
    assert given.without_password("mysql://root:pw@db:3306/t") == "mysql://root:***@db:3306/t"
    assert given.without_password("redis://db:6379/0") == "redis://db:6379/0"

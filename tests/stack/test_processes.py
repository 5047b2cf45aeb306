"""Starting, recognising and ending processes. The processes are real, short commands."""

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from scripts.stack import ports, processes, programs
from scripts.stack.processes import Identity
from scripts.stack.programs import Program
from scripts.stack.progress import StackError

WAITS = [sys.executable, "-c", "import signal; signal.pause()"]
DEAF = [
    sys.executable,
    "-c",
    "import signal; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); signal.pause()",
]


def test_stop_ends_a_process_that_hears_sigterm(tmp_path: Path) -> None:
    identity = processes.spawn(WAITS, tmp_path / "log")
    assert processes.alive(identity)
    assert processes.stop(identity)
    assert not processes.alive(identity)


def test_stop_ends_a_stopped_process(tmp_path: Path) -> None:
    identity = processes.spawn(WAITS, tmp_path / "log")
    processes.send(identity, signal.SIGSTOP)
    assert processes.stop(identity)


def test_stop_kills_a_process_that_ignores_sigterm(tmp_path: Path) -> None:
    log = tmp_path / "log"
    identity = processes.spawn(DEAF, log)
    assert processes.wait_until(lambda: "deaf" in log.read_text(), 10)
    assert not processes.stop(identity, grace_seconds=0.1)
    assert not processes.alive(identity)


def test_kill_also_ends_what_the_process_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    identity = processes.spawn([sys.executable, "-c", child], log)
    assert processes.wait_until(lambda: log.read_text().endswith("\n"), 10)
    grandchild = processes.identify(int(log.read_text()))
    assert grandchild is not None
    processes.kill(identity)
    assert processes.wait_ended(grandchild, 10)


def test_identity_with_another_start_time_is_another_process() -> None:
    me = processes.identify(os.getpid())
    assert me is not None
    assert processes.alive(me)
    assert not processes.alive(Identity(os.getpid(), "0"))


def test_signal_is_not_sent_to_a_later_process_of_the_same_number(tmp_path: Path) -> None:
    identity = processes.spawn(WAITS, tmp_path / "log")
    processes.send(Identity(identity.pid, "0"), signal.SIGKILL)
    assert processes.alive(identity)
    processes.kill(identity)


def test_spawned_process_is_noted_in_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = tmp_path / "registry"
    monkeypatch.setenv(processes.REGISTRY_VARIABLE, str(registry))
    identities = [processes.spawn(WAITS, tmp_path / "log") for _ in range(2)]
    assert processes.registered(registry) == identities[::-1]
    for identity in identities:
        processes.kill(identity)


def test_missing_program_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="cannot start /nowhere/server"):
        processes.spawn(["/nowhere/server"], tmp_path / "log")


def test_program_that_ends_while_starting_tells_the_end_of_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('no such table'); sys.exit(3)"]
    program = Program("service", command, tmp_path / "log", ready=lambda: False)
    with pytest.raises(StackError, match=r"(?s)service ended with code 3 while starting.*no such table"):
        programs.start(program)


def test_program_that_never_gets_ready_is_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", "import os, signal; print(os.getpid(), flush=True); signal.pause()"]
    program = Program("service", command, log, ready=lambda: False, ready_seconds=1.0)
    with pytest.raises(StackError, match="service was not ready after 1 s"):
        programs.start(program)
    assert processes.identify(int(log.read_text())) is None


def test_prefer_skips_ports_that_are_used_or_spoken_for() -> None:
    with socket.socket() as listener:
        listener.bind((ports.HOST, 0))
        listener.listen()
        used = listener.getsockname()[1]
        taken = {used + 1}
        chosen = ports.prefer(used, taken)
    assert chosen > used + 1
    assert chosen in taken


def test_port_of_a_listener_on_all_interfaces_is_not_free() -> None:
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        assert not ports.is_free(listener.getsockname()[1])


def test_port_of_a_test_server_is_none_that_a_client_can_be_given() -> None:
    chosen = [ports.any_free() for _ in range(50)]
    assert len(set(chosen)) == 50
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first_of_clients = int(limits.read_text().split()[0]) if limits.exists() else 49152
    assert all(port < first_of_clients for port in chosen)

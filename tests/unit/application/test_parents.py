"""A parent's credential is the caller's own, by token or handle (R-4)."""

from __future__ import annotations

import pytest

from taskstatus.application.identity import Role, ServiceIdentity
from taskstatus.domain.errors import RefusedError
from taskstatus.domain.reasons import Reason
from tests.unit.factories import PARSER
from tests.unit.service_kit import a_service, drive

from .reporting_kit import COORDINATOR_SERVICE, WORKER, ReportingKit


@pytest.mark.parametrize("form", ["token", "handle"])
def test_r4_parents_credential_opens_for_its_own_producer(reporting: ReportingKit, form: str) -> None:
    credential = {"token": "", "handle": "", form: getattr(reporting, form)}
    grant = drive(reporting.kit.executions.open_parent(WORKER, **credential))
    assert grant is not None
    assert grant.binding.execution_id == reporting.bound.binding.execution_id


@pytest.mark.parametrize("form", ["token", "handle"])
@pytest.mark.parametrize(
    ("caller", "reason"),
    [
        (a_service("other", Role.WORKER), Reason.PRODUCER_MISMATCH),
        (COORDINATOR_SERVICE, Reason.PRODUCER_MISMATCH),
        (a_service(PARSER, Role.WORKER, tenant_id="t-02"), Reason.TOKEN_MISMATCH),
        (a_service(PARSER, Role.WORKER, scope="other"), Reason.TOKEN_MISMATCH),
    ],
)
def test_r4_parents_credential_is_of_no_use_to_others(
    reporting: ReportingKit, caller: ServiceIdentity, reason: Reason, form: str
) -> None:
    credential = {"token": "", "handle": "", form: getattr(reporting, form)}
    with pytest.raises(RefusedError) as caught:
        drive(reporting.kit.executions.open_parent(caller, **credential))
    assert caught.value.reason is reason


def test_r4_coordinator_names_a_parent_without_its_credential(reporting: ReportingKit) -> None:
    assert drive(reporting.kit.executions.open_parent(COORDINATOR_SERVICE, "", "")) is None


def test_r4_forged_parents_credential_is_unauthenticated(reporting: ReportingKit) -> None:
    for credential in ({"token": "forged", "handle": ""}, {"token": "", "handle": "exh_forged"}):
        with pytest.raises(RefusedError) as caught:
            drive(reporting.kit.executions.open_parent(WORKER, **credential))
        assert caught.value.reason is Reason.UNAUTHENTICATED

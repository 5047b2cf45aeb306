"""The role × method matrix with the REST routes."""

from gateway_rest.problems import HTTP_MAPPINGS
from gateway_rest.routes import load_bindings, stub_files
from scripts.docs.markdown import code, page, prose, table
from taskstatus.application.access import METHOD_ROLES
from taskstatus.application.identity import Role
from taskstatus.domain.reasons import Reason


def matrix() -> str:
    """Who may call what, and by which routes."""
    rows = [
        (_short(method), *("●" if role in roles else "" for role in Role), _routes(method))
        for method, roles in METHOD_ROLES.items()
    ]
    intro = """Who may call a method at all; what one caller may do with one task (recorded coordinator, own producer,
        grants) is judged later, against the database. A method that is not listed is closed. `user` is a person, the
        others are roles in a service's JWT. Data: `METHOD_ROLES` in `taskstatus/application/access.py`, and the
        `google.api.http` options in `proto/taskstatus/v1/`; the whole REST contract is at `/openapi.json`."""
    return page("Methods: roles and routes", prose(intro), table(("method of taskstatus.v1", *Role, "REST"), rows))


def http_status(reason: Reason) -> int:
    """The HTTP status of a refusal."""
    return HTTP_MAPPINGS[reason].status


def _short(method: str) -> str:
    return code(method.removeprefix("taskstatus.v1."))


def _routes(method: str) -> str:
    bindings = [each for each in load_bindings(stub_files()) if each.method == method]
    return "<br>".join(code(f"{each.http_method} {each.template.text}") for each in bindings)

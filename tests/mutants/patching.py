"""Replace functions, tables and methods of the loaded program, wherever they were imported by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

OWN_PACKAGES = ("taskstatus", "relay", "gateway_rest", "tests")

Apply = Callable[[], None]


class NothingToMutateError(Exception):
    """The change would change nothing: what it aims at is not where it looks."""


def rebind(original: object, mutated: object) -> None:
    """Put ``mutated`` where any module of ours holds ``original``; tests compare tables by name, so theirs too.

    Raises NothingToMutateError when no module of the product holds it.
    """
    holders = {
        module_name
        for module_name, module in list(sys.modules.items())
        if module_name.partition(".")[0] in OWN_PACKAGES and _rebind_in(vars(module), original, mutated)
    }
    if all(name.partition(".")[0] == "tests" for name in holders):
        raise NothingToMutateError(f"no module holds {original!r}")


def _rebind_in(namespace: dict[str, Any], original: object, mutated: object) -> bool:
    names = [name for name, value in namespace.items() if value is original]
    for name in names:
        namespace[name] = mutated
    return bool(names)


def instead_of(original: Callable[..., Any], mutated: Callable[..., Any]) -> Apply:
    """Put one function in the place of another."""
    return partial(rebind, original, mutated)


def around(original: Callable[..., Any], change: Callable[..., Any]) -> Apply:
    """Put ``change(original, …)`` in the place of a function."""
    return partial(rebind, original, partial(change, original))


def table_entry(table: Mapping[Any, Any], key: object, value: object) -> Apply:
    """Change one entry of a table."""

    def apply() -> None:
        if table[key] == value:
            raise NothingToMutateError(f"{key} is {value} already")
        rebind(table, {**table, key: value})

    return apply


def set_member(members: frozenset[Any], member: object) -> Apply:
    """Put a member into a set, or take it out."""
    return partial(rebind, members, members ^ {member})


def method(owner: type, name: str, mutated: Callable[..., Any]) -> Apply:
    """Put ``mutated(original, self, …)`` in the place of a method."""

    def apply() -> None:
        original = getattr(owner, name)

        def changed(*args: Any, **kwargs: Any) -> Any:
            return mutated(original, *args, **kwargs)

        setattr(owner, name, changed)

    return apply


def computed(owner: type, name: str, value: Callable[[Any], Any]) -> Apply:
    """Let a property tell something else."""

    def apply() -> None:
        if not isinstance(getattr(owner, name), property):
            raise NothingToMutateError(f"{owner.__name__}.{name} is not a property")
        setattr(owner, name, property(value))

    return apply


def always(value: object) -> Callable[..., Any]:
    """A function that answers the same whatever it is asked."""

    def answer(*_: Any, **__: Any) -> Any:
        return value

    return answer

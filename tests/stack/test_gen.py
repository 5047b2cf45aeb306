"""Names and imports of the generated package, and the comparison with what is committed."""

from pathlib import Path

import pytest

from scripts import gen

ROOTS = {"taskstatus", "centrifugo"}


@pytest.mark.parametrize(
    ("raw", "rewritten"),
    [
        ("from taskstatus.v1 import a_pb2 as _a", "from taskstatus_pb.v1 import a_pb2 as _a"),
        ("    from taskstatus.v1 import a_pb2", "    from taskstatus_pb.v1 import a_pb2"),
        ("from centrifugo.api import api_pb2", "from taskstatus_pb.centrifugo.api import api_pb2"),
        ("from centrifugo import api_pb2", "from taskstatus_pb.centrifugo import api_pb2"),
        ("from google.api import annotations_pb2", "from google.api import annotations_pb2"),
        ("from taskstatus_other import x", "from taskstatus_other import x"),
        ('"""from taskstatus.v1 in a text"""', '"""from taskstatus.v1 in a text"""'),
    ],
)
def test_imports_of_the_proto_roots_are_rewritten_and_no_others(raw: str, rewritten: str) -> None:
    assert gen.rewrite_imports(raw, ROOTS) == rewritten


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ("taskstatus/v1/a_pb2.py", "v1/a_pb2.py"),
        ("taskstatus/storage/v1/a_pb2.py", "storage/v1/a_pb2.py"),
        ("centrifugo/api_pb2.py", "centrifugo/api_pb2.py"),
    ],
)
def test_our_root_is_the_package_and_others_are_below_it(raw: str, place: str) -> None:
    assert gen.package_path(Path(raw)) == Path(place)


def test_differences_name_new_changed_and_removed_files(tmp_path: Path) -> None:
    fresh, committed = tmp_path / "fresh", tmp_path / "committed"
    for folder, names in ((fresh, ("same", "changed", "new")), (committed, ("same", "changed", "gone"))):
        folder.mkdir()
        for name in names:
            (folder / name).write_text(folder.name if name == "changed" else name)
    (committed / "__pycache__").mkdir()
    (committed / "__pycache__" / "x.pyc").touch()
    assert gen.differences(fresh, committed) == ["changed", "gone", "new"]

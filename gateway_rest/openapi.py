"""Writes ``openapi.json``, the document that the adapter serves: ``python -m gateway_rest.openapi --write``.

The stubs carry no comments, so that the protos are compiled once more, with source information, by the compiler of
the code generation environment. ``--check`` writes nothing and fails when the committed document is another one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson
from google.protobuf import descriptor_pb2

from gateway_rest.openapi_comments import Comments, comments_of
from gateway_rest.openapi_document import build_document
from gateway_rest.pages import OPENAPI_FILE
from gateway_rest.routes import stub_files

_CHECKOUT = Path(__file__).resolve().parents[1]
_INCLUDES = "import grpc_tools, sysconfig; print(sysconfig.get_path('purelib')); print(*grpc_tools.__path__)"


def main(argv: list[str] | None = None) -> int:
    """Write the document or compare it; 1 when it differs or the compiler refuses the protos."""
    parser = argparse.ArgumentParser(prog="python -m gateway_rest.openapi", description=__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write the document")
    mode.add_argument("--check", action="store_true", help="compare only")
    default = _CHECKOUT / ".venv-codegen" / "bin" / "python"
    parser.add_argument("--python", type=Path, default=default, help="an interpreter that has grpc_tools")
    arguments = parser.parse_args(argv)
    try:
        fresh = render_document(read_comments(arguments.python))
    except subprocess.CalledProcessError as error:
        print(f"openapi: the protobuf compiler refused proto/:\n{error.stderr}", file=sys.stderr)
        return 1
    except FileNotFoundError:
        print(f"openapi: there is no {arguments.python}; run `make gen` first", file=sys.stderr)
        return 1
    place = Path(__file__).with_name(OPENAPI_FILE)
    if arguments.write:
        place.write_bytes(fresh)
    elif not place.exists() or place.read_bytes() != fresh:
        print(f"openapi: {place.name} is not what proto/ gives; run `{parser.prog} --write`", file=sys.stderr)
        return 1
    return 0


def render_document(comments: Comments) -> bytes:
    """The document as it is committed."""
    return orjson.dumps(build_document(stub_files(), comments), option=orjson.OPT_INDENT_2) + b"\n"


def read_comments(python: Path) -> Comments:
    """The comments of every proto of ``taskstatus.v1`` in the checkout.

    Raises FileNotFoundError without the interpreter, CalledProcessError when the compiler refuses a file.
    """
    proto = _CHECKOUT / "proto"
    names = sorted(path.relative_to(proto).as_posix() for path in (proto / "taskstatus" / "v1").glob("*.proto"))
    # Both commands run the developer's own interpreter on the checkout's own files.
    asked = subprocess.run([python, "-c", _INCLUDES], capture_output=True, text=True, check=True)  # noqa: S603
    site, tools = asked.stdout.splitlines()
    with tempfile.TemporaryDirectory(prefix="taskstatus-openapi-") as temp:
        out = Path(temp) / "descriptors.binpb"
        command = [str(python), "-m", "grpc_tools.protoc", f"-I{proto}", f"-I{site}", f"-I{tools}/_proto"]
        command += ["--include_source_info", f"--descriptor_set_out={out}", *names]
        subprocess.run(command, check=True, cwd=proto, capture_output=True, text=True)  # noqa: S603
        return comments_of(descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()))


if __name__ == "__main__":
    sys.exit(main())

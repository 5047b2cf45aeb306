"""``curl`` for the walkthrough's test: what a reader types must really run."""

import os
import shutil
import subprocess

from scripts.stack.progress import Progress, StackError

REMEDY = "apt-get install curl   (as root)"


def ensure(progress: Progress) -> None:
    """Install curl with apt-get where it is missing and we may; else say how."""
    if shutil.which("curl"):
        return
    prefix = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if shutil.which("apt-get") is None or (prefix and shutil.which("sudo") is None):
        raise StackError("curl is missing, and could not be installed from here", REMEDY)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with progress.step("no curl here, installing it with apt-get (once)"):
        for command in (["update"], ["install", "--yes", "--no-install-recommends", "curl"]):
            done = subprocess.run([*prefix, "apt-get", *command], check=False, capture_output=True, env=environment)
    if done.returncode != 0 or shutil.which("curl") is None:
        raise StackError("curl is missing, and apt-get could not install it", REMEDY)

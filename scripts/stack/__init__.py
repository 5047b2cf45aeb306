"""The developer stack: finds or installs the servers, runs them on private folders and ports, stops them.

Standard library only, because it runs before the project's own environment exists. Used in two ways: as the
commands behind ``make`` (:mod:`scripts.stack.cli`) and as a library by the test fixtures
(:mod:`scripts.stack.servers`).
"""

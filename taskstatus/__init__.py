"""taskstatus: truthful status of asynchronous work.

Packages, from the inside out: ``domain`` (pure rules), ``application`` (ports and the one service), ``adapters``,
``entrypoints`` and ``runtime`` (which never import one another), ``bootstrap`` (wires them), ``cli``. ``sdk`` is what
a worker installs and imports none of these.
"""

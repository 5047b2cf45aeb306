"""``make bench``: what the product takes and how soon it is published, beside a naive build and a raw ceiling.

One run starts servers of its own, prepares executions, and measures the builds in interleaved rounds, so that what the
machine does besides meets all of them alike; its ratios are the result, its absolute figures belong to the machine.

``plan`` holds the figures of a run, ``stack`` the servers, ``prepare`` the executions, ``fill`` old rows in bulk,
``workload`` the events. Each load (``naive``, ``raw``, ``product``, ``streaming``, ``beating``, ``subscriber``) runs in
a process of its own (``worker``), driven by ``drive``; ``loads`` starts them and compares builds. ``sections`` measure,
``verify`` checks the rows afterwards, ``report`` writes ``results/``. ``soak`` is a run of its own (``make soak``).
"""

"""The design's document task, live: a coordinator and three workers as processes of their own, on the running stack.

What runs (``python -m scripts.demo``, or ``make demo``)::

    demo ─── starts ──▶ coordinator ◀── JSON lines on a Unix socket ──▶ FILE.PREPARE, DOCUMENT.PARSE, RESULT.PERSIST
      │                     │                                                    │
      │                     └────────────── gRPC (taskstatus.sdk) ───────────────┘
      │                                           ▼
      └── REST, WebSocket ◀── Centrifugo ◀── relay ◀── status service ──▶ MySQL or MariaDB

The socket carries work: execution contexts one way, result references and status versions back. Status travels only to
the service, and comes back to people only through the realtime channels, which ``demo`` watches as the task's owner.
"""

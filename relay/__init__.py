"""The outbox relay: its own process, which carries committed rows of ``task_outbox`` to Centrifugo (O-1…O-6).

One turn of the loop (``loop.py``): claim → render → publish → mark. Any number of replicas may run.

::

                 claim (lease, fresh token)            taken by Centrifugo, or nothing left to say
      PENDING ───────────────────────────▶ PROCESSING ──────────────────────────────────────────▶ PUBLISHED
         ▲  ▲                                │  │  │
         │  └── retryable failure: backoff ──┘  │  └── permanent failure, or failures used up ──▶ DEAD
         └───── outage: released, not counted ──┘                                  (requeue) ────▶ PENDING

``due_at`` is when a row may be claimed next: at once, after its backoff, or when its lease ends; NULL once it is
PUBLISHED or DEAD. So a claim reads one index range, whatever state the row is in.

What can go wrong, and what holds then:

- A relay dies between publish and mark: the lease ends, another publishes again. The idempotency key (kind,
  projection, aggregate, rendered version) lets Centrifugo drop the second one for five minutes; after that clients
  drop it by its version.
- A relay sleeps past its lease: it does not publish what it has not sent yet, and every mark repeats the claim's token,
  so it never marks what another has taken.
- Centrifugo is down: rows are released and the loop pauses; no row's failure budget is touched (O-2).
- One message is refused: it alone goes DEAD; its batch goes on.
"""

"""The thin REST adapter (T-3): the same protobuf messages in their JSON mapping, given to the same dispatch as gRPC.

Routes come from the ``google.api.http`` options of the protos, so that no route and no schema is written twice. One
request passes ``app`` → ``routes`` (which method) → ``request_message`` (body, query, path and Idempotency-Key into one
message) → the dispatch → ``json_output``, or ``problems`` when it is refused.
"""

"""Ports (Protocols) and the one ``TaskStatusService`` that every entrypoint holds."""

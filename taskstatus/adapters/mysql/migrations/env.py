"""Alembic's entry point: runs on the connection that ``migrate`` hands over, which holds the migration lock."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()

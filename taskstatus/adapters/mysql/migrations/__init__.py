"""The schema as numbered alembic revisions, one DDL statement each; run by ``taskstatus migrate``."""

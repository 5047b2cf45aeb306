"""The store on MySQL and MariaDB.

How a write travels: ``transactions`` opens a transaction on a pooled connection and runs the caller's closure, again
when the database asks for it; ``write_transaction`` reads under locks with the texts of ``hot_sql``; ``change_writer``
writes one ``ChangeSet`` in the lock order; ``rows_*`` convert between rows and records; ``errors`` is the one table
that says what an error means. ``reader`` reads outside transactions in consistent views.
"""

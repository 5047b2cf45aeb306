"""Renders what ``docs/`` says from the code itself: the reference pages, and the blocks of ``docs/one-event.md``.

``python -m scripts.docs --check`` compares (so does ``tests/docs``), ``--write`` renews. A page is either rendered
whole from data (:mod:`scripts.docs.reference`), or written by hand with marked blocks (:mod:`scripts.docs.blocks`).
What fills those is taken from a run of the real modules over the in-memory store (:mod:`scripts.docs.one_event`).
"""

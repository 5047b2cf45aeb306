"""The sections of the report; each can be run alone and has schemas of its own."""

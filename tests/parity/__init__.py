"""One table of cases, sent by every transport in every form: same result, version, reason and rows (T-3, E-2, E-9)."""

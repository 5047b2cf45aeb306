"""Tests of scripts/stack and scripts/gen; they start no server and download nothing."""

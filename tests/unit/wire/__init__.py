"""Unit tests of the protobuf edge that every transport shares."""

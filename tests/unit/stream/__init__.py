"""The rules of one stream, without gRPC and without a database."""

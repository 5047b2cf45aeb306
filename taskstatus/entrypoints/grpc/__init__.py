"""gRPC: the first transport (T-1). Thin: the wire package does the work."""

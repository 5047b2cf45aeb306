"""What callers reach: the gRPC servicers."""

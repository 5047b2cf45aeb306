"""What a worker or a coordinator installs: report over gRPC in a few lines; needs the stubs and grpc, nothing else."""

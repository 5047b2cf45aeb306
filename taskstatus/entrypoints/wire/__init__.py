"""The protobuf edge that every transport shares: convert, call the service, convert back."""

"""Hidden seeds in the service: committed ahead, anchored, mixed, opened to validators, closed, revealed."""

"""Where the service keeps what it must not forget: a relational database and content-addressed blobs."""

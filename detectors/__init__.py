"""Facts in, Findings out: detectors beyond weights. No database, no network, no clock, no randomness of their own."""

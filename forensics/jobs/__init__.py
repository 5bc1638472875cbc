"""Jobs: the work on entries, done durably by any number of workers."""

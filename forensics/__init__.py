"""The service around the forensics: registry of known models, command line, reports."""

"""The chain as the service sees it: blocks, commitments and anchors; one interface, one file per implementation.

``interface`` says what is asked of a chain. ``subtensor`` asks a Bittensor node, ``recorded`` a file of answers that
somebody kept, and ``fake`` is a whole small chain in memory, put beneath ``subtensor`` in tests and where there is no
network.
"""

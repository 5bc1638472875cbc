"""Who trained on exposed items, and which validator leaked hidden ones.

Miners are scored on items, some *exposed* (public before the epoch, or leaked) and some *fresh*. Whoever learned the
exposed items does better on them than on fresh ones of the same difficulty. Two things make that hard to judge: fresh
items may be harder (a raw gap test then flags most honest miners), and hundreds of miners are judged epoch after
epoch. See ``judge`` for how the parts below answer both.
"""

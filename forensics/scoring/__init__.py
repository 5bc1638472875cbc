"""From results to weights: ordered Pareto with error bars, multipliers, weights, and why.

Design: 4-detectors section 4. Decisions: docs/decisions/0060 (the front) to 0064.
"""

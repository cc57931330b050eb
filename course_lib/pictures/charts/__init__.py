"""Charts of measured numbers: lines on logarithmic axes, bars with their ratios, and counts."""

"""Heatmaps of attention weights, single or compared, and pictures of masks."""

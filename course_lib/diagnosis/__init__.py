"""Mistakes in attention code: what they are called, how they show, and a doctor that finds and names them."""

from .catalogue import CATALOGUE, Mistake
from .diagnose import diagnose
from .report import Finding, Report

__all__ = ["CATALOGUE", "Finding", "Mistake", "Report", "diagnose"]

"""How much the doctor finds in code that nobody of this course wrote; run from a clone, never installed."""

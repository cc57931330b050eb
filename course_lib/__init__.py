"""The attention course's library: the code that the lessons build, record, draw and check."""

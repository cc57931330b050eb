"""What is done to a lesson's notebook: found, paired, run, compared, checked. One idea a file.

Nothing is imported here, so that the command starts at once.
"""

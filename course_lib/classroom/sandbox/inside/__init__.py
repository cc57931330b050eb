"""What runs inside the sandbox: cells and numbers go in, numbers come out. It imports nothing of the course."""

DISK = "/scratch"  # the only place that can be written; not /tmp: Python itself may lie there

"""Train the storytellers that come with the course, and measure what each mistake does to one."""

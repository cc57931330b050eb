"""Students' answers behind walls, judged on this side by numbers that were drawn after their code was loaded."""

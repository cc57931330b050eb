"""For the teacher: hand exercises out, with a stamp that says which ones they were."""

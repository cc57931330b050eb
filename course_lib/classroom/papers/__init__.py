"""What comes of marks: the gradebook, a page for each student, a report for the teacher."""

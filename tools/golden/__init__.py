"""The golden record: everything that the doctor, `check` and the pictures say today, kept to compare tomorrow with."""

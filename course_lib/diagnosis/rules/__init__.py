"""What each measured sign means: one file a group of mistakes, each rule gives the findings it can prove."""

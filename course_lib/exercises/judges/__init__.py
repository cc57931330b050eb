"""How function exercises are judged: a reference, inputs, and known wrong answers. One subject a file."""

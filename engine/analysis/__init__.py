"""What the numbers say: counted, compared, and put into findings."""

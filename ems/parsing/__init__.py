"""What a model wrote, taken apart: its text without thoughts, JSON in it, the number that it states."""

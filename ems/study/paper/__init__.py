"""The paper's questions and prompts, taken from the user's copy of it."""

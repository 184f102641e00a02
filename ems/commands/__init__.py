"""What each command of `ems` does, and its options (parser). A module is loaded when its command is run."""

"""Does a document state what an answer states? `passages` finds the place, `supporter` asks."""

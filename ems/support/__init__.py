"""Does a document state what an answer states? passages (find the place), supporter (a judge, or numbers)."""

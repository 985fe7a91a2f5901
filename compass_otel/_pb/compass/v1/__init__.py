"""Generated code; made by `make gen`, never edited."""

"""Files that people and programs exchange: written whole or not at all, and read strictly."""

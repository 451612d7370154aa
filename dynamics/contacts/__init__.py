"""Motion under contacts, and impacts, with first and second derivatives."""
